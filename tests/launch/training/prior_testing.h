// A model of memberships without layers: what the controllers and checkpoints of the prior see of one.
#pragma once

#include <memory>
#include <vector>

#include "core/models/language_model.h"
#include "kernels/error.h"

namespace longhaul::testing {

class PriorModel : public LanguageModel {
 public:
  /// regimes 0: without memberships.
  explicit PriorModel(int64_t layers = 2, int64_t regimes = 3) : LanguageModel({}, DType::f32) {
    if (regimes > 0) {
      prior_memory_ = std::make_unique<PriorMemory>(PriorMemory::Options{.layers = layers, .regimes = regimes});
    }
  }

  std::vector<double> eta = {0.5, 0.5};  ///< of the residual branches

  std::vector<double> residual_gates(int64_t) const override { return eta; }
  Variable hidden(ForwardContext&) override { throw internal_error("no layers"); }
  Variable output_weight() const override { throw internal_error("no layers"); }
  std::unique_ptr<DecodeState> make_decode_state(int64_t, int64_t) const override { throw internal_error("no layers"); }
  Tensor decode(DecodeState&, const std::vector<std::vector<int32_t>>&) const override {
    throw internal_error("no layers");
  }
  std::vector<LayerFlops> flops(int64_t) const override { return {}; }
};

}  // namespace longhaul::testing
