// Which regime attends to which part of a row: the projection of the length-aware prior.
#pragma once

#include "core/autograd/tape.h"

namespace longhaul::ops {

struct AlignmentOptions {
  double temperature = 0.7;  ///< tau_align
  int64_t iterations = 6;    ///< of Sinkhorn, each rows and then columns
  bool detach = true;        ///< pass no gradient on
};

/// Raised-cosine basis [length, count] (kernels/rpa_basis.h; models.md 7.2).
Tensor rpa_basis(int64_t length, int64_t count, DType dtype);

/// mean_memberships [T, R], basis [T, K]; returns [R, K]: Sinkhorn of mean_memberships^T basis (models.md 7.3). Without
/// detach, the gradient goes back through the iterations and the product; clamped scores pass none on. internal_error
/// "alignment: ..." with both shapes when they disagree.
Variable alignment(Tape& tape, const Variable& mean_memberships, const Tensor& basis,
                   const AlignmentOptions& options = {});

}  // namespace longhaul::ops
