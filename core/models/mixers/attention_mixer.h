// Causal attention with rotary positions as a mixer (models.md 5): the attention layers of serial and the attention
// heads of fused.
#pragma once

#include "core/models/mixers/mixer_heads.h"
#include "core/ops/attention.h"

namespace longhaul {

/// n_head heads of d_model / n_head, side by side. Parameter under `prefix`: qkv_proj.weight (q | k | v rows).
class AttentionHeads : public MixerHeads {
 public:
  /// rope_table: make_rope_table() in the dtype of the activations, one for all layers.
  AttentionHeads(ParameterStore& store, const std::string& prefix, const ModelConfig& config, const Tensor& rope_table);

  int64_t columns() const override { return options_.query_heads * options_.head_size; }
  Variable forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior* prior) const override;
  std::vector<Variable> parameters() const override { return {qkv_.weight()}; }
  std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t max_length,
                                         const ops::PriorFactors& prior) const override;
  Tensor decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const override;
  std::vector<LayerFlops> flops(int64_t context_length) const override;

 private:
  Linear qkv_;
  ops::AttentionOptions options_;
};

/// The heads and their output projection, o_proj.weight.
class AttentionMixer : public ProjectedMixer {
 public:
  AttentionMixer(ParameterStore& store, const std::string& prefix, const ModelConfig& config, const Tensor& rope_table)
      : ProjectedMixer(store, prefix + ".o_proj", std::make_unique<AttentionHeads>(store, prefix, config, rope_table),
                       config.d_model, config.initializer_range) {}
};

}  // namespace longhaul
