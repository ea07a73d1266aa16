// The Mamba2 mixer between its two projections (models.md 3.2 to 3.5): convolution, step sizes, state-space scan, gated
// norm. One tape entry.
#pragma once

#include "core/autograd/tape.h"
#include "core/tensor/batch.h"

namespace longhaul::ops {

struct Mamba2Options {
  int64_t heads = 0, head_size = 64, state_size = 128, groups = 1, convolution_width = 4;
  double dt_low = 0, dt_high = 1e300;  ///< time_step_limit
  double norm_epsilon = 1e-5;
  int64_t chunk = 64;  ///< tokens whose interactions are one matrix product; the result is the same to rounding
  int64_t inner() const { return heads * head_size; }
  int64_t convolution_channels() const { return inner() + 2 * groups * state_size; }
  int64_t projected_columns() const { return inner() + convolution_channels() + heads; }
};

/// Parameters: convolution weight [channels, width] and bias [channels], dt_bias, a_log, d [heads], norm weight
/// [inner].
struct Mamba2Parameters {
  Variable convolution_weight, convolution_bias, dt_bias, a_log, d, norm_weight;
};

/// projected [B * T, projected_columns] = z | x B C | dt, the input projection's output. Returns [B * T, inner], what
/// the output projection reads. Documents of the batch never see each other. internal_error with shapes when they
/// disagree.
Variable mamba2_mixer(Tape& tape, const Variable& projected, const Mamba2Parameters& parameters, const Batch& batch,
                      const Mamba2Options& options);

}  // namespace longhaul::ops
