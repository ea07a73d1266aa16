// Element-by-element sum, the residual connection, and mean.
#pragma once

#include "core/autograd/tape.h"

namespace longhaul::ops {

/// a + b, equal shapes. The backward pass copies nothing: both inputs share the gradient of the output until one of
/// them receives another contribution.
Variable add(Tape& tape, const Variable& a, const Variable& b);

/// sum + factor * x, one f64 element each; an undefined sum counts as 0: terms of an objective.
Variable add_scaled(Tape& tape, const Variable& sum, const Variable& x, double factor);

/// (a + b) / 2, equal shapes: branches side by side.
Variable mean(Tape& tape, const Variable& a, const Variable& b);

}  // namespace longhaul::ops
