// A token mixer: what one layer of a backbone does between its norm and its residual addition. Attention, Mamba2,
// Gated DeltaNet, or attention and recurrence side by side: the stack that runs them (mixer_stack.h) knows only this.
#pragma once

#include <memory>
#include <vector>

#include "core/autograd/tape.h"
#include "core/models/decode_rows.h"
#include "core/models/language_model.h"
#include "core/ops/length_prior.h"
#include "core/tensor/batch.h"

namespace longhaul {

/// What a mixer remembers of the tokens seen by a batch of sequences: keys and values, or recurrent state and
/// convolution window.
class MixerState {
 public:
  virtual ~MixerState() = default;
  virtual void clear(int64_t sequence) = 0;  ///< forget one sequence
};

class Mixer {
 public:
  virtual ~Mixer() = default;

  /// x [B * T, d_model], normed, to [B * T, d_model]. Documents of `batch` never see each other: attention, recurrent
  /// state, convolution window and rotary positions all start anew. `prior` is that of the layer's attention, null for
  /// none; recurrences have no use for it.
  virtual Variable forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior* prior) const = 0;
  /// The parameters forward() uses.
  virtual std::vector<Variable> parameters() const = 0;

  /// The state keeps the prior of its attention (rank 0: none), which goes by positions in the sequence.
  virtual std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t max_length,
                                                 const ops::PriorFactors& prior) const = 0;
  /// x [rows, d_model], the new tokens `rows` of some sequences: returns the mixer's output for them and advances the
  /// state. Equals forward() with the state's prior over all tokens of a sequence at once, to rounding, however they
  /// are split into calls.
  virtual Tensor decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const = 0;

  /// Per token at this context length, forward pass.
  virtual std::vector<LayerFlops> flops(int64_t context_length) const = 0;
};

}  // namespace longhaul
