// Root-mean-square normalisation.
#pragma once

#include "core/autograd/tape.h"

namespace longhaul::ops {

/// y = weight * x / sqrt(mean(x^2) + epsilon) over the last axis; x, y [rows, d]; weight [d].
/// internal_error "rms_norm: ..." with both shapes when they disagree. (Zhang & Sennrich 2019)
Variable rms_norm(Tape& tape, const Variable& x, const Variable& weight, double epsilon);

}  // namespace longhaul::ops
