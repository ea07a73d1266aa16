// Dropout with a mask that depends on (seed, step, layer, global sample, element) alone.
#pragma once

#include "core/autograd/tape.h"
#include "core/tensor/batch.h"
#include "kernels/philox.h"

namespace longhaul::ops {

/// x / (1 - probability) where kept, 0 elsewhere; x [B * T, columns]. probability 0 returns x itself. The mask is never
/// stored: the backward pass draws it again. internal_error unless 0 <= probability < 1. (Srivastava et al. 2014)
Variable dropout(Tape& tape, const Variable& x, double probability, kernels::RandomKey key, const Batch& batch);

}  // namespace longhaul::ops
