// The fitted router: predicts a gate's entropy from its input without the product with the whole output matrix
// (models.md 6). A linear map beside a SiLU layer of a few hundred units.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"

namespace longhaul {

/// H(u) = linear . u + bias + output . silu(hidden_weight u + hidden_bias), in f32. Without fitting all zeros.
class GateRouter {
 public:
  static constexpr int64_t kHiddenUnits = 512;
  explicit GateRouter(int64_t d_model, int64_t hidden_units = kHiddenUnits);

  /// u [rows, d_model] f32: f32 [rows].
  Tensor predict(const Tensor& u) const;

  /// All parameters in one buffer, f32 [count]; the others are views of it.
  const Tensor& flat() const { return flat_; }
  const Tensor& linear() const { return linear_; }                ///< [d_model]
  const Tensor& bias() const { return bias_; }                    ///< [1]
  const Tensor& hidden_weight() const { return hidden_weight_; }  ///< [hidden_units, d_model]
  const Tensor& hidden_bias() const { return hidden_bias_; }      ///< [hidden_units]
  const Tensor& output() const { return output_; }                ///< [hidden_units]
  int64_t d_model() const { return linear_.count(); }
  int64_t hidden_units() const { return hidden_bias_.count(); }

  /// Multiply and add as two, per token.
  double flops() const { return 2.0 * static_cast<double>(flat_.count()); }

 private:
  Tensor flat_, linear_, bias_, hidden_weight_, hidden_bias_, output_;
};

}  // namespace longhaul
