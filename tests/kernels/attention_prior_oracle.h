// The prior of attention as the T x T matrix that its definition speaks of, in double.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/attention_prior.h"
#include "kernels/rpa_basis.h"
#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {

/// Inputs of a prior; memberships are rows of a softmax, the projection nearly doubly stochastic.
struct PriorInputs {
  PriorShape shape;
  PriorSettings settings;
  std::vector<double> memberships, projection, basis;

  PriorInputs(int64_t length, int64_t regimes, uint32_t stream = 50) {
    shape = {.length = length, .regimes = regimes, .functions = regimes};
    memberships = random_values<double>(length * regimes, stream);
    projection = random_values<double>(regimes * regimes, stream + 1);
    for (auto* values : {&memberships, &projection})
      for (size_t row = 0; row < values->size(); row += static_cast<size_t>(regimes)) {
        double sum = 0;
        for (size_t r = row; r < row + static_cast<size_t>(regimes); ++r)
          sum += (*values)[r] = std::exp(2 * (*values)[r]);
        for (size_t r = row; r < row + static_cast<size_t>(regimes); ++r) (*values)[r] /= sum;
      }
    basis.resize(static_cast<size_t>(length * regimes));
    rpa_basis<double>(Cpu{}, basis.data(), length, regimes);
  }
};

struct PlainPrior {
  PriorMoments moments;
  std::vector<double> unclipped, bias;  ///< [T, T], both with `warm`
};

inline PlainPrior plain_prior(const PriorInputs& in) {
  const auto [length, regimes, functions] = in.shape;
  const PriorSettings& s = in.settings;
  std::vector<double> b;
  for (int64_t i = 0; i < length; ++i)
    for (int64_t j = 0; j < length; ++j) {
      double value = 0;
      for (int64_t r = 0; r < regimes; ++r)
        for (int64_t k = 0; k < functions; ++k)
          value += in.memberships[static_cast<size_t>(i * regimes + r)] *
                   in.projection[static_cast<size_t>(r * functions + k)] *
                   in.basis[static_cast<size_t>(j * functions + k)];
      const double distance = length > 1 ? std::abs(static_cast<double>(i - j)) / static_cast<double>(length - 1) : 0;
      b.push_back((1 - s.mix) * value - s.mix * s.pos_beta * distance);
    }
  PlainPrior plain;
  const double count = static_cast<double>(b.size());
  for (double value : b) plain.moments.mean += value / count;
  double variance = 0;
  for (double value : b) variance += (value - plain.moments.mean) * (value - plain.moments.mean) / count;
  plain.moments.deviation = std::sqrt(variance);
  for (double value : b) {
    const double z = (value - plain.moments.mean) / (plain.moments.deviation + 1e-6) /
                     std::clamp(s.temperature, s.least_temperature, s.most_temperature);
    plain.unclipped.push_back(z * s.warm);
    plain.bias.push_back(std::clamp(z, -s.clip, s.clip) * s.warm);
  }
  return plain;
}

/// Factors in T from inputs in double.
template <typename T>
struct PriorFactors {
  PriorShape shape;
  PriorMoments moments;
  std::vector<T> query, key;
  double limit;

  explicit PriorFactors(const PriorInputs& in) : shape(in.shape), limit(in.settings.clip * in.settings.warm) {
    const std::vector<T> memberships(in.memberships.begin(), in.memberships.end());
    const std::vector<T> projection(in.projection.begin(), in.projection.end());
    const std::vector<T> basis(in.basis.begin(), in.basis.end());
    query.assign(static_cast<size_t>(shape.length * (shape.functions + 1)), T(NAN));
    key = query;
    moments = attention_prior_forward<T>(Cpu{}, query.data(), key.data(), memberships.data(), projection.data(),
                                         basis.data(), shape, in.settings);
  }
  AttentionPrior<T> view() const {
    return {.length = shape.length, .rank = shape.functions, .query = query.data(), .key = key.data(), .limit = limit};
  }
  /// bias_ij before clipping.
  double unclipped(int64_t i, int64_t j) const {
    const int64_t width = shape.functions + 1;
    const T *const q = query.data() + i * width, *const k = key.data() + j * width;
    double sum = static_cast<double>(q[width - 1]) + static_cast<double>(k[width - 1]);
    for (int64_t r = 0; r < width - 1; ++r) sum += static_cast<double>(q[r]) * static_cast<double>(k[r]);
    return sum;
  }
};

/// Gradients of sum over j <= i of weight_ij bias_ij to everything that has one.
struct PriorGradients {
  std::vector<double> memberships, projection;
  double pos_beta = NAN;

  PriorGradients(const PriorInputs& in, const std::vector<double>& sums)
      : memberships(in.memberships.size(), NAN), projection(in.projection.size(), NAN) {
    attention_prior_backward<double>(Cpu{}, memberships.data(), false, projection.data(), false, &pos_beta, false,
                                     sums.data(), in.memberships.data(), in.projection.data(), in.basis.data(),
                                     in.shape, in.settings);
  }
};

}  // namespace longhaul::kernels
