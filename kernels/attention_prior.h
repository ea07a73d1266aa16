// The length-aware prior of attention as factors (models.md 7.4 and 7.5): an alignment of rank K, minus a distance
// penalty, standardised over all T^2 entries and clipped. No T x T array is formed anywhere.
//
//   B_ij    = (1 - mix) mean_memberships_i P phi_j - mix pos_beta |i - j| / (T - 1)
//   bias_ij = warm * clamp((B_ij - mean) / (deviation + 1e-6) / clamp(temperature), -clip, clip)
//
// mean and deviation (that of a population) are over all i, j, although attention uses j <= i alone: there the distance
// is i - j, so that the bias before clipping is a product of factors of i and of j.
#pragma once

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/memberships.h"

namespace longhaul::kernels {

static_assert(kMaxRegimes <= kMaxPriorRank);

struct PriorSettings {
  double mix = 0.1;        ///< m: weight of the distance penalty
  double pos_beta = 0.2;   ///< >= 0
  double temperature = 1;  ///< tau_att, before it is clamped
  double least_temperature = 0.6, most_temperature = 1.6;
  double clip = 4;  ///< of the standardised value divided by the temperature
  double warm = 1;  ///< min(1, step / 1200)

  double clamped_temperature() const { return std::clamp(temperature, least_temperature, most_temperature); }
};

/// Of B over all T^2 entries.
struct PriorMoments {
  double mean = 0;
  double deviation = 0;
};

/// length T, regimes R and functions K of the basis, both at most kMaxRegimes.
struct PriorShape {
  int64_t length = 0, regimes = 0, functions = 0;
};

/// query and key [T, K + 1], factors of the bias as AttentionPrior has them (limit: clip * warm), from memberships
/// [T, R] (the mean over a batch), projection [R, K] (the result of Sinkhorn) and basis [T, K]. They are centred, so
/// that nothing cancels when attention adds them in T. Sums run in double in rising order on the calling thread.
template <typename T>
PriorMoments attention_prior_forward(Cpu, T* query, T* key, const T* memberships, const T* projection, const T* basis,
                                     const PriorShape& shape, const PriorSettings& settings);

/// dmemberships [T, R] (+)=, dprojection [R, K] (+)= (may be null), dpos_beta (+)=, from the sums [T, K + 2] over
/// keys j (and rows and heads) of the gradient to bias_ij where it is not clipped: times key_jr for each r < K, alone,
/// and times i - j. Through mean and deviation as well; the deviation passes no gradient on where it is 0.
template <typename T>
void attention_prior_backward(Cpu, T* dmemberships, bool accumulate_memberships, T* dprojection,
                              bool accumulate_projection, double* dpos_beta, bool accumulate_pos_beta,
                              const double* sums, const T* memberships, const T* projection, const T* basis,
                              const PriorShape& shape, const PriorSettings& settings);

}  // namespace longhaul::kernels
