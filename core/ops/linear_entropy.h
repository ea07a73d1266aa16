// Output matrix and entropy in one: what decides whether entropy-gated attention fires (models.md 6).
#pragma once

#include <string_view>

#include "core/autograd/tape.h"

namespace longhaul::ops {

/// H = -sum p log p / log V with p = softmax(weight u), for every row u of hidden [rows, d]; weight [V, d], V >= 2, may
/// be bf16 with f32 hidden. Returns f32 [rows] in [0, 1]; computed in the type of hidden (f64 for f64). Nothing is
/// recorded: no gradient flows. The vocabulary is walked in tiles with online sums, so only a few MiB of scores exist
/// and the weight is read once. A row's bits depend on that row and the weight alone, not on the rows beside it or on
/// the number of threads. A decoding tape's mode makes few rows fast (other last bits). `product` is the precision of
/// the scores (GateConfig::product): "f32", or "int16" (kernels/int16_matmul.h), which f64 rows and the few rows of
/// decoding do not use. internal_error "linear_entropy: ..." with both shapes; user_error for an unknown product.
Tensor linear_entropy(const Tensor& hidden, const Tensor& weight, std::string_view product = "f32",
                      Tape::Mode mode = Tape::Mode::off);

}  // namespace longhaul::ops
