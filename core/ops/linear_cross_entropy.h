// Output layer and cross-entropy in one: the [tokens, vocabulary] logits are never formed, only blocks of a few rows.
#pragma once

#include "core/autograd/tape.h"
#include "kernels/cross_entropy.h"

namespace longhaul::ops {

struct LinearCrossEntropyResult {
  Variable objective;            ///< f64 [1]: sum over valid targets of what is trained (smoothing and z-loss included)
  double cross_entropy_sum = 0;  ///< sum of the unsmoothed cross-entropy
  int64_t valid_targets = 0;
  int64_t correct = 0;  ///< valid targets that have the largest logit (of equal ones the first counts)
};

/// hidden [rows, d], weight [vocabulary, d] (may be bf16 with f32 hidden), targets i32 of `rows` elements, negative =
/// not a valid target (contributes exactly 0). At most chunk_bytes of logits exist at a time (at least one row). When
/// the tape records, the gradients for objective's seed 1 are computed here, chunk by chunk (three matrix products, no
/// recomputation): the weight's gradient memory (Variable::bind_gradient) must therefore be free to write from the
/// forward pass on. Losses are added in double in row order. user_error for a target outside the vocabulary;
/// internal_error "linear_cross_entropy: ..." with both shapes.
LinearCrossEntropyResult linear_cross_entropy(Tape& tape, const Variable& hidden, const Variable& weight,
                                              const Tensor& targets, kernels::CrossEntropyOptions options,
                                              int64_t chunk_bytes);

/// Rows of logits computed at a time: as many as fit in chunk_bytes, evened out over the chunks; at least 1.
int64_t cross_entropy_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t chunk_bytes);

}  // namespace longhaul::ops
