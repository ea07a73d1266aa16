// Dense layer: y = x W^T + b.
#pragma once

#include "core/autograd/tape.h"

namespace longhaul::ops {

/// x [rows, in], weight [out, in], bias [out] or undefined; returns [rows, out]. One matrix product forward, two
/// backward: dx = dy W, dW = dy^T x straight into the weight's gradient memory; db = column sum of dy. weight and bias
/// may be stored in bf16 with an f32 x. internal_error "linear: ..." with both shapes when they disagree.
Variable linear(Tape& tape, const Variable& x, const Variable& weight, const Variable& bias = {});

}  // namespace longhaul::ops
