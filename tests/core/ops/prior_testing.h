// Inputs of the length-aware prior for the tests of everything that attends with one.
#pragma once

#include <vector>

#include "core/ops/alignment.h"
#include "core/ops/length_prior.h"
#include "tests/kernels/attention_prior_oracle.h"

namespace longhaul::testing {

inline constexpr kernels::PriorSettings kSmooth{
    .mix = 0.1, .pos_beta = 0.2, .temperature = 0.8, .clip = 40, .warm = 0.9};
/// With one regime the alignment hardly varies: the penalty is what standardising divides by.
inline constexpr kernels::PriorSettings kDistance{
    .mix = 0.5, .pos_beta = 4, .temperature = 0.8, .clip = 40, .warm = 0.9};
inline constexpr kernels::PriorSettings kClipped{
    .mix = 0.4, .pos_beta = 0.7, .temperature = 1.1, .clip = 0.8, .warm = 0.6};

inline kernels::PriorInputs prior_inputs(int64_t length, int64_t regimes, const kernels::PriorSettings& settings) {
  kernels::PriorInputs in(length, regimes);
  in.settings = settings;
  return in;
}

/// mean_memberships, alignment and pos_beta, f64.
inline std::vector<Tensor> prior_tensors(const kernels::PriorInputs& in) {
  return {Tensor::from<double>({in.shape.length, in.shape.regimes}, std::span<const double>(in.memberships)),
          Tensor::from<double>({in.shape.regimes, in.shape.functions}, std::span<const double>(in.projection)),
          Tensor::from<double>({1}, {in.settings.pos_beta})};
}

inline ops::LengthPrior length_prior(const Variable& mean_memberships, const Variable& alignment,
                                     const Variable& pos_beta, kernels::PriorSettings settings) {
  settings.pos_beta = 1e9;  // not read
  const Tensor& mean = mean_memberships.value();
  return {mean_memberships, alignment, pos_beta, ops::rpa_basis(mean.size(0), mean.size(1), mean.dtype()), settings};
}

}  // namespace longhaul::testing
