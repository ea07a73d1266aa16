// Layer normalisation.
#pragma once

#include "core/autograd/tape.h"

namespace longhaul::ops {

/// y = (x - mean) / sqrt(var + epsilon) * weight + bias over the last axis; x, y [rows, d]; weight, bias [d].
/// internal_error "layer_norm: ..." with both shapes when they disagree. (Ba et al. 2016)
Variable layer_norm(Tape& tape, const Variable& x, const Variable& weight, const Variable& bias, double epsilon);

}  // namespace longhaul::ops
