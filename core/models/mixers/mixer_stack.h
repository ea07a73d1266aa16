// A backbone of mixers: h += mixer(RMSNorm(h)), then h += SwiGLU(RMSNorm(h)) (models.md 3 to 5), n_layer times. Neither
// embedding nor final norm belong to it.
#pragma once

#include <memory>
#include <vector>

#include "core/models/length_aware_layer.h"
#include "core/models/mixer_states.h"
#include "core/nn/linear.h"
#include "core/nn/norm.h"

namespace longhaul {

class MixerStack {
 public:
  /// Registers layers.N.norm.weight, layers.N.mixer.*, and with feed_forward layers.N.mlp_norm.weight,
  /// layers.N.mlp.{gate_up_proj,down_proj}.weight. Which mixer stands in a layer follows from family and mixer:
  /// mamba2, gdn: that recurrence everywhere; serial: attention in layers n, 2n, ... (counted from 1, n =
  /// attention_every); fused: both in every layer; amor: the recurrence `mixer`. dtype of the activations. With a
  /// `memory` (else null), of attention_layers() layers, each of those has the prior its input gives: layers.N.rpa.*.
  MixerStack(ParameterStore& store, const ModelConfig& config, DType dtype, const PriorMemory* memory);

  /// x [B * T, d_model], the embedded tokens. Dropout of the residual branches draws from streams 1 to 2 n_layer (0 is
  /// the embedding's), recomputation per layer: both as DecoderModel.
  Variable forward(ForwardContext& context, Variable x) const;

  /// Appends the state of every layer's mixer to `states`; decode() finds them at 0 to n_layer - 1. Each keeps the
  /// prior as the memory has it now.
  void append_states(MixerStates& states, int64_t sequences, int64_t max_length) const;
  /// x [rows, d_model], the embedded new tokens. Advances the mixers' states, not the lengths of `states`.
  Tensor decode(MixerStates& states, const Tensor& x, const DecodeRows& rows) const;

  /// One entry per layer kind, summed over the layers.
  std::vector<LayerFlops> flops(int64_t context_length) const;

 private:
  struct Layer {
    LengthAwareLayer length_aware;
    RmsNorm norm;
    std::unique_ptr<Mixer> mixer;
    RmsNorm feed_forward_norm;
    Linear gate_up, down;
  };
  Layer make_layer(ParameterStore& store, int64_t index, const Tensor& rope_table) const;
  std::vector<Variable> parameters(const Layer& layer) const;
  Variable feed_forward(Tape& tape, const Layer& layer, const Variable& x) const;

  ModelConfig config_;
  DType dtype_;
  const PriorMemory* memory_;
  std::vector<Layer> layers_;
};

/// The layers of the stack that have attention.
int64_t attention_layers(const ModelConfig& config);

}  // namespace longhaul
