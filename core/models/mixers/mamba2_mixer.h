// Mamba2 as a mixer (Dao & Gu 2024; models.md 3).
#pragma once

#include "core/models/mixers/mixer_heads.h"
#include "core/ops/mamba2_mixer.h"

namespace longhaul {

/// Input projection, convolution, state-space scan and gated norm. Parameters under `prefix`: in_proj.weight (rows z |
/// x B C | dt), conv1d.weight [x B C channels, width], conv1d.bias, dt_bias, A_log, D [heads], norm.weight [inner].
class Mamba2Heads : public MixerHeads {
 public:
  /// heads: expand * d_model / mixer_head_size alone, d_model / mixer_head_size beside attention heads.
  Mamba2Heads(ParameterStore& store, const std::string& prefix, const ModelConfig& config, int64_t heads,
              DType activation);

  int64_t columns() const override { return options_.inner(); }
  Variable forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior* prior) const override;
  std::vector<Variable> parameters() const override;
  std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t max_length,
                                         const ops::PriorFactors& prior) const override;
  Tensor decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const override;
  std::vector<LayerFlops> flops(int64_t context_length) const override;

 private:
  ops::Mamba2Options options_;
  DType activation_;
  Linear projection_;
  ops::Mamba2Parameters parameters_;
};

/// The heads and their output projection, out_proj.weight.
class Mamba2Mixer : public ProjectedMixer {
 public:
  Mamba2Mixer(ParameterStore& store, const std::string& prefix, const ModelConfig& config, DType activation)
      : ProjectedMixer(store, prefix + ".out_proj",
                       std::make_unique<Mamba2Heads>(
                           store, prefix, config, config.expand * config.d_model / config.mixer_head_size, activation),
                       config.d_model, config.initializer_range) {}
};

}  // namespace longhaul
