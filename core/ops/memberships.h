// Soft memberships in regimes and their mean over the rows of a batch: what the length-aware prior is made from.
#pragma once

#include "core/autograd/tape.h"
#include "core/tensor/batch.h"

namespace longhaul::ops {

/// z [tokens, columns], centres [R, columns], log_sigma [R]; returns [tokens, R], every row a softmax over regimes of
/// clamp(-|z_t - centre_r|^2 / 2 * clamp(exp(-2 log_sigma_r), 1e-3, 1e3), -30, 30) (models.md 7.1). A clamped value
/// passes no gradient on. centres and log_sigma may be stored in bf16 with an f32 z. internal_error "memberships: ..."
/// with both shapes when they disagree, or for more than kernels::kMaxRegimes regimes.
Variable memberships(Tape& tape, const Variable& z, const Variable& centres, const Variable& log_sigma);

/// x [B * T, columns]; returns [T, columns]: the mean over the B rows of the batch. internal_error "batch_mean: ...".
Variable batch_mean(Tape& tape, const Variable& x, const Batch& batch);

}  // namespace longhaul::ops
