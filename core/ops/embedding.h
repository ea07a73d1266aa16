// Token (and learned position) embedding.
#pragma once

#include "core/autograd/tape.h"
#include "core/tensor/batch.h"

namespace longhaul::ops {

/// Row r of the result [B * T, d] is tokens[ids[r]] + positions[position[r]]; tokens [vocabulary, d], positions
/// [context, d] or undefined. Tables stored in bf16 give f32 activations. user_error for an id outside the vocabulary
/// or a position outside the context, naming its row and position.
Variable embedding(Tape& tape, const Batch& batch, const Variable& tokens, const Variable& positions = {});

}  // namespace longhaul::ops
