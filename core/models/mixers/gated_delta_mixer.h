// Gated DeltaNet as a mixer (Yang et al. 2024; models.md 4).
#pragma once

#include "core/models/mixers/mixer_heads.h"
#include "core/ops/gated_delta_mixer.h"

namespace longhaul {

/// Input projection, convolution, gated delta rule and gated norm. Parameters under `prefix`: in_proj.weight (rows q |
/// k | v | g | b | a), conv1d.weight [q, k, v channels, width], A_log, dt_bias [heads], o_norm.weight [value size].
class GatedDeltaHeads : public MixerHeads {
 public:
  /// heads: delta_heads alone, d_model / delta_value_size beside attention heads.
  GatedDeltaHeads(ParameterStore& store, const std::string& prefix, const ModelConfig& config, int64_t heads,
                  DType activation);

  int64_t columns() const override { return options_.value_columns(); }
  Variable forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior* prior) const override;
  std::vector<Variable> parameters() const override;
  std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t max_length,
                                         const ops::PriorFactors& prior) const override;
  Tensor decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const override;
  std::vector<LayerFlops> flops(int64_t context_length) const override;

 private:
  ops::GatedDeltaOptions options_;
  DType activation_;
  Linear projection_;
  ops::GatedDeltaParameters parameters_;
};

/// The heads and their output projection, o_proj.weight.
class GatedDeltaMixer : public ProjectedMixer {
 public:
  GatedDeltaMixer(ParameterStore& store, const std::string& prefix, const ModelConfig& config, DType activation)
      : ProjectedMixer(store, prefix + ".o_proj",
                       std::make_unique<GatedDeltaHeads>(store, prefix, config, config.delta_heads, activation),
                       config.d_model, config.initializer_range) {}
};

}  // namespace longhaul
