// The length-aware prior of one call of attention (models.md 7.4 and 7.5): its factors, formed once, and its gradients.
#pragma once

#include "core/autograd/tape.h"
#include "kernels/attention_prior.h"

namespace longhaul::ops {

/// What attention adds to the scores of every head, as factors; everything in the type of qkv but pos_beta, which may
/// be bf16.
struct LengthPrior {
  Variable mean_memberships;        ///< [T, R] (batch_mean); T at least the length of the batch
  Variable alignment;               ///< [R, K]
  Variable pos_beta;                ///< [1]; counts as 0 below 0, where it has no gradient
  Tensor basis;                     ///< [T, K] (rpa_basis)
  kernels::PriorSettings settings;  ///< but for its pos_beta, which is not read
  double score_temperature = 1;     ///< divides q . k / sqrt(head size), to which the prior is added
};

/// Memory for what attention leaves of the gradient of a prior of rank K; undefined where nobody wants it.
struct PriorSums {
  Tensor sums;  ///< f64 [T, K + 2], zeros
  Tensor rows;  ///< [queries * heads, K + 2]

  template <typename T>
  kernels::AttentionPriorGradient<T> view() const {
    if (!sums.defined()) return {};
    return {.sums = sums.data<double>(), .rows = rows.data<T>()};
  }
};

class PriorFactors {
 public:
  PriorFactors() = default;  ///< no prior: view() is one of rank 0
  /// internal_error "attention: ..." when the parts do not go together or T is less than `length`.
  PriorFactors(const LengthPrior& prior, int64_t length, DType dtype);

  template <typename T>
  kernels::AttentionPrior<T> view() const;
  /// Factor of q . k: 1 / sqrt(head_size), over the score temperature of the prior.
  double score_scale(int64_t head_size) const;
  /// Does anybody want the gradients of the prior?
  bool wanted() const;
  /// For a call of `queries` queries.
  PriorSums make_sums(int64_t queries, int64_t heads) const;
  /// From what the backward pass of attention left there to all three targets; nothing where nobody wants it.
  template <typename T>
  void backward(const PriorSums& sums) const;

 private:
  kernels::PriorShape shape_;
  kernels::PriorSettings settings_;
  Tensor mean_memberships_, alignment_, basis_;
  Tensor query_, key_;
  GradientTarget mean_memberships_target_, alignment_target_, pos_beta_target_;
  bool pos_beta_free_ = true;  ///< not below its floor
  double score_temperature_ = 1;
};

}  // namespace longhaul::ops
