// What Mamba2 and Gated DeltaNet share: how their convolution and step sizes start, and what they remember of a
// sequence.
#pragma once

#include "core/models/mixers/mixer.h"
#include "core/nn/parameter_store.h"

namespace longhaul {

/// Uniform in +-1/sqrt(width).
Initialization convolution_initialization(int64_t width);
/// softplus^-1 of step sizes drawn log-uniformly from [1e-3, 1e-1], none below 1e-4.
Initialization step_bias_initialization();

/// Of every sequence: the convolution's inputs before the next token, oldest first, [sequences, width - 1, channels],
/// and the state of the recurrence, [sequences, elements].
struct RecurrentState : MixerState {
  RecurrentState(int64_t sequences, int64_t width, int64_t channels, int64_t elements, DType dtype)
      : window(Tensor::zeros({sequences, width - 1, channels}, dtype)),
        state(Tensor::zeros({sequences, elements}, dtype)) {}
  void clear(int64_t sequence) override {
    window.rows(sequence, sequence + 1).zero();
    state.rows(sequence, sequence + 1).zero();
  }
  Tensor window, state;
};

}  // namespace longhaul
