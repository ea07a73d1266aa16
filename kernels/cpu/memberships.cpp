#include "kernels/memberships.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/error.h"

namespace longhaul::kernels {
namespace {

constexpr double kLeastPrecision = 1e-3, kMostPrecision = 1e3, kMostExponent = 30;

void check(int64_t regimes) {
  if (regimes < 1 || regimes > kMaxRegimes)
    throw internal_error("memberships: {} regimes are outside 1..{}", regimes, kMaxRegimes);
}

/// clamp(exp(-2 log_sigma), 1e-3, 1e3) of every regime, and whether it moves with log_sigma.
struct Precisions {
  double value[kMaxRegimes];
  bool free[kMaxRegimes];

  template <typename T>
  Precisions(const T* log_sigma, int64_t regimes) {
    for (int64_t r = 0; r < regimes; ++r) {
      const double raw = std::exp(-2.0 * static_cast<double>(log_sigma[r]));
      free[r] = raw >= kLeastPrecision && raw <= kMostPrecision;
      value[r] = free[r] ? raw : raw < kLeastPrecision ? kLeastPrecision : raw > kMostPrecision ? kMostPrecision : raw;
    }
  }
};

/// Softmax of the clamped exponents of one token.
template <typename T>
void softmax(T* memberships, const T* square, const Precisions& precision, int64_t regimes) {
  double exponents[kMaxRegimes], largest = -kMostExponent, sum = 0;
  for (int64_t r = 0; r < regimes; ++r) {
    exponents[r] = std::max(-0.5 * static_cast<double>(square[r]) * precision.value[r], -kMostExponent);
    largest = std::max(largest, exponents[r]);
  }
  for (int64_t r = 0; r < regimes; ++r) sum += exponents[r] = std::exp(exponents[r] - largest);
  for (int64_t r = 0; r < regimes; ++r) memberships[r] = static_cast<T>(exponents[r] / sum);
}

/// Gradient to the exponents of one token: through the softmax, zero where clamped.
template <typename T>
void exponent_gradients(double* gradient, const T* dmemberships, const T* memberships, const T* square,
                        const Precisions& precision, int64_t regimes) {
  double inner = 0;
  for (int64_t r = 0; r < regimes; ++r)
    inner += static_cast<double>(dmemberships[r]) * static_cast<double>(memberships[r]);
  for (int64_t r = 0; r < regimes; ++r) {
    const bool clamped = 0.5 * static_cast<double>(square[r]) * precision.value[r] > kMostExponent;
    const double through = static_cast<double>(memberships[r]) * (static_cast<double>(dmemberships[r]) - inner);
    gradient[r] = clamped ? 0.0 : through;
  }
}

/// dz of one token: 2 sum_r dsquare_r (z - centre_r).
template <typename T>
void input_gradient(T* dz, bool accumulate, const T* dsquare, const T* z, const T* centres, int64_t regimes,
                    int64_t columns) {
  for (int64_t r = 0; r < regimes; ++r) {
    const T factor = 2 * dsquare[r];
    const auto term = [factor](auto value, auto centre) { return factor * (value - centre); };
    if (r == 0 && !accumulate)
      simd::transform(dz, columns, term, z, centres);
    else
      simd::transform(
          dz, columns, [term](auto old, auto value, auto centre) { return old + term(value, centre); }, dz, z,
          centres + r * columns);
  }
}

constexpr int64_t kColumnBlock = 64;  ///< columns whose sums over tokens are kept at hand

/// dcentres of some columns: 2 sum_t dsquare (centre - z).
template <typename T>
void centre_gradients(T* dcentres, bool accumulate, const T* dsquare, const T* z, const T* centres, int64_t tokens,
                      int64_t regimes, int64_t stride, int64_t columns) {
  double sums[kMaxRegimes][kColumnBlock] = {};
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t r = 0; r < regimes; ++r) {
      const double factor = 2.0 * static_cast<double>(dsquare[t * regimes + r]);
      for (int64_t c = 0; c < columns; ++c)
        sums[r][c] += factor * (static_cast<double>(centres[r * stride + c]) - static_cast<double>(z[t * stride + c]));
    }
  for (int64_t r = 0; r < regimes; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      T& target = dcentres[r * stride + c];
      target = static_cast<T>((accumulate ? static_cast<double>(target) : 0.0) + sums[r][c]);
    }
}

/// dlog_sigma: the precision moves as -2 precision, so that an exponent moves as square * precision.
template <typename T>
void width_gradients(T* dlog_sigma, bool accumulate, const T* dsquare, const T* square, const Precisions& precision,
                     int64_t tokens, int64_t regimes) {
  for (int64_t r = 0; r < regimes; ++r) {
    double sum = 0;  // dsquare = -precision / 2 * (gradient of the exponent)
    for (int64_t t = 0; t < tokens; ++t)
      sum += -2.0 * static_cast<double>(dsquare[t * regimes + r]) * static_cast<double>(square[t * regimes + r]);
    const double value = precision.free[r] ? sum : 0.0;
    dlog_sigma[r] = static_cast<T>((accumulate ? static_cast<double>(dlog_sigma[r]) : 0.0) + value);
  }
}

}  // namespace

template <typename T>
void memberships_forward(Cpu, T* memberships, T* square, const T* z, const T* centres, const T* log_sigma,
                         int64_t tokens, int64_t regimes, int64_t columns) {
  check(regimes);
  const Precisions precision(log_sigma, regimes);
  parallel_ranges(tokens, 1, tokens * regimes * columns, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t r = 0; r < regimes; ++r)
        square[t * regimes + r] = simd::transform_sum<T>(
            columns, [](auto a, auto b) { return (a - b) * (a - b); }, z + t * columns, centres + r * columns);
      softmax(memberships + t * regimes, square + t * regimes, precision, regimes);
    }
  });
}

template <typename T>
void memberships_backward(Cpu, T* dz, bool accumulate, T* dcentres, T* dlog_sigma, bool accumulate_parameters,
                          T* dsquare, const T* dmemberships, const T* memberships, const T* square, const T* z,
                          const T* centres, const T* log_sigma, int64_t tokens, int64_t regimes, int64_t columns) {
  check(regimes);
  const Precisions precision(log_sigma, regimes);
  const int64_t work = tokens * regimes * columns;
  parallel_ranges(tokens, 1, work, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t at = t * regimes;
      double gradient[kMaxRegimes];
      exponent_gradients(gradient, dmemberships + at, memberships + at, square + at, precision, regimes);
      for (int64_t r = 0; r < regimes; ++r) dsquare[at + r] = static_cast<T>(-0.5 * precision.value[r] * gradient[r]);
      input_gradient(dz + t * columns, accumulate, dsquare + at, z + t * columns, centres, regimes, columns);
    }
  });
  parallel_ranges(columns, kColumnBlock, work, [=](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kColumnBlock)
      centre_gradients(dcentres + first, accumulate_parameters, dsquare, z + first, centres + first, tokens, regimes,
                       columns, std::min(kColumnBlock, end - first));
  });
  width_gradients(dlog_sigma, accumulate_parameters, dsquare, square, precision, tokens, regimes);
}

template <typename T>
void batch_mean_forward(Cpu, T* mean, const T* x, int64_t batch, int64_t length, int64_t columns) {
  const int64_t count = length * columns;
  parallel_ranges(count, 16, batch * count, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t b = 0; b < batch; ++b) sum += static_cast<double>(x[b * count + i]);
      mean[i] = static_cast<T>(sum / static_cast<double>(batch));
    }
  });
}

template <typename T>
void batch_mean_backward(Cpu, T* dx, bool accumulate, const T* dmean, int64_t batch, int64_t length, int64_t columns) {
  const int64_t count = length * columns;
  const T inverse = static_cast<T>(1.0 / static_cast<double>(batch));
  parallel_ranges(batch, 1, batch * count, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t i = 0; i < count; ++i)
        dx[b * count + i] = (accumulate ? dx[b * count + i] : T(0)) + dmean[i] * inverse;
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                                               \
  template void memberships_forward(Cpu, T*, T*, const T*, const T*, const T*, int64_t, int64_t, int64_t);    \
  template void memberships_backward(Cpu, T*, bool, T*, T*, bool, T*, const T*, const T*, const T*, const T*, \
                                     const T*, const T*, int64_t, int64_t, int64_t);                          \
  template void batch_mean_forward(Cpu, T*, const T*, int64_t, int64_t, int64_t);                             \
  template void batch_mean_backward(Cpu, T*, bool, const T*, int64_t, int64_t, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
