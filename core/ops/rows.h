// Some rows of a matrix: taking them out, and adding a gated update back to them (entropy-gated attention, models.md
// 6). `rows` is i32 [count] in rising order, repeats allowed, each in [0, rows of the matrix); it may be empty.
//
// Compacted: gather_rows(u, fired), then projections and row_attention of these rows alone, then add_gated_rows.
// Dense with mask, for comparison: projections and attention of all rows, gather_rows(update, fired), then the same
// add_gated_rows. Values and gradients of the two agree to rounding.
#pragma once

#include "core/autograd/tape.h"

namespace longhaul::ops {

/// internal_error "op: ..." naming the first of `rows` that is out of order or outside [0, limit).
void check_rows(const char* op, const Tensor& rows, int64_t limit);

/// The rows of x [n, d] that `rows` names: [count, d]. The gradient is zero in all other rows. internal_error
/// "gather_rows: ..." naming the first row that is out of order or out of range.
Variable gather_rows(Tape& tape, const Variable& x, const Tensor& rows);

/// h [n, d] with update [count, d] added to the named rows: y[rows[i]] = h[rows[i]] + alpha * update[i], alpha =
/// sigmoid(max(raw_alpha, -1)) per channel, raw_alpha [d] (may be bf16 with f32 h). The gradient of raw_alpha is summed
/// over i in rising order and is zero where raw_alpha < -1. internal_error "add_gated_rows: ..." with both shapes.
Variable add_gated_rows(Tape& tape, const Variable& h, const Variable& update, const Variable& raw_alpha,
                        const Tensor& rows);

}  // namespace longhaul::ops
