// The Gated DeltaNet mixer between its two projections (models.md 4.1 to 4.5): convolution, L2 norms of queries and
// keys, gates, gated delta rule, gated norm.
#pragma once

#include "core/autograd/tape.h"
#include "core/tensor/batch.h"

namespace longhaul::ops {

struct GatedDeltaOptions {
  int64_t heads = 0, key_size = 64, value_size = 128, convolution_width = 4;
  double norm_epsilon = 1e-5;      ///< of the gated norm
  double key_norm_epsilon = 1e-6;  ///< of the L2 norms
  int64_t chunk =
      64;  ///< tokens whose interactions are one matrix product; any value gives the same result to rounding
  int64_t key_columns() const { return heads * key_size; }
  int64_t value_columns() const { return heads * value_size; }
  int64_t convolution_channels() const { return 2 * key_columns() + value_columns(); }
  int64_t projected_columns() const { return convolution_channels() + value_columns() + 2 * heads; }
};

/// convolution_weight [convolution_channels, width] (q, k, v channels), a_log and dt_bias [heads], norm_weight
/// [value_size].
struct GatedDeltaParameters {
  Variable convolution_weight, a_log, dt_bias, norm_weight;
};

/// projected [B * T, projected_columns] = q | k | v | g | b | a, the input projection's output. Returns [B * T,
/// value_columns], what the output projection reads. Documents of the batch never see each other. internal_error with
/// shapes when they disagree.
Variable gated_delta_mixer(Tape& tape, const Variable& projected, const GatedDeltaParameters& parameters,
                           const Batch& batch, const GatedDeltaOptions& options);

/// The same for the next token of each of n running sequences: projected [n, projected_columns]; state [n, heads,
/// value_size, key_size] and window [n, width - 1, convolution_channels] are advanced in place. Returns [n,
/// value_columns].
Tensor gated_delta_mixer_step(const Tensor& projected, const GatedDeltaParameters& parameters, const Tensor& state,
                              const Tensor& window, const GatedDeltaOptions& options);

}  // namespace longhaul::ops
