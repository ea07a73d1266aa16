// Attention heads and recurrent heads side by side on the same input (models.md 5): each half is RMS-normed over its
// d_model columns and scaled by a learned weight per channel, their mean goes through one output projection.
#pragma once

#include "core/models/mixers/mixer_heads.h"
#include "core/nn/norm.h"

namespace longhaul {

/// The recurrence is the one `config.mixer` names, as wide as d_model: d / mixer_head_size heads of Mamba2 or d /
/// delta_value_size heads of Gated DeltaNet. Parameters under `prefix`: attention.qkv_proj.weight,
/// attention_norm.weight, recurrent.*, recurrent_norm.weight, out_proj.weight.
class FusedMixer : public Mixer {
 public:
  FusedMixer(ParameterStore& store, const std::string& prefix, const ModelConfig& config, DType activation,
             const Tensor& rope_table);

  Variable forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior* prior) const override;
  std::vector<Variable> parameters() const override;
  std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t max_length,
                                         const ops::PriorFactors& prior) const override;
  Tensor decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const override;
  std::vector<LayerFlops> flops(int64_t context_length) const override;

 private:
  Variable join(Tape& tape, const Variable& attended, const Variable& recurrent) const;

  std::unique_ptr<MixerHeads> attention_, recurrent_;
  RmsNorm attention_norm_, recurrent_norm_;
  Linear projection_;
};

}  // namespace longhaul
