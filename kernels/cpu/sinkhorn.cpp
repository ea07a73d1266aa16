#include "kernels/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.h"
#include "kernels/memberships.h"

namespace longhaul::kernels {
namespace {

constexpr double kLogLimit = 20.72326583694641;  ///< ln 1e9

/// Lines of a matrix along which it is normalised: `count` lines `step` apart, their `length` elements `stride` apart.
struct Lines {
  int64_t count, step, length, stride;
};

Lines lines_of(int64_t half_step, int64_t rows, int64_t columns) {
  if (half_step % 2 == 0) return {.count = rows, .step = columns, .length = columns, .stride = 1};
  return {.count = columns, .step = 1, .length = rows, .stride = columns};
}

/// Takes from each line the logarithm of the sum of its exponentials.
void normalise(double* logs, const Lines& lines) {
  for (int64_t line = 0; line < lines.count; ++line, logs += lines.step) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < lines.length; ++i) largest = std::max(largest, logs[i * lines.stride]);
    for (int64_t i = 0; i < lines.length; ++i) sum += std::exp(logs[i * lines.stride] - largest);
    const double shift = largest + std::log(sum);
    for (int64_t i = 0; i < lines.length; ++i) logs[i * lines.stride] -= shift;
  }
}

/// Gradient of logarithms after a half step to the one before: g - exp(logs) * (sum of g along the line).
void normalise_backward(double* gradient, const double* logs, const Lines& lines) {
  for (int64_t line = 0; line < lines.count; ++line, gradient += lines.step, logs += lines.step) {
    double sum = 0;
    for (int64_t i = 0; i < lines.length; ++i) sum += gradient[i * lines.stride];
    for (int64_t i = 0; i < lines.length; ++i) gradient[i * lines.stride] -= std::exp(logs[i * lines.stride]) * sum;
  }
}

void check(double temperature, int64_t iterations, int64_t rows, int64_t columns) {
  if (rows > kMaxRegimes || columns > kMaxRegimes || iterations < 1 || !(temperature > 0))
    throw internal_error(
        "sinkhorn: {} x {} scores, {} iterations, temperature {}: at most {} x {}, at least 1, above 0", rows, columns,
        iterations, temperature, kMaxRegimes, kMaxRegimes);
}

}  // namespace

template <typename T>
void sinkhorn_forward(Cpu, T* result, double* steps, const T* scores, double temperature, int64_t iterations,
                      int64_t rows, int64_t columns) {
  check(temperature, iterations, rows, columns);
  const int64_t count = rows * columns;
  double logs[kMaxRegimes * kMaxRegimes];
  for (int64_t i = 0; i < count; ++i) {
    const double exponent = static_cast<double>(scores[i]) / temperature;
    logs[i] = std::min(std::max(exponent, -kLogLimit), kLogLimit);
  }
  for (int64_t half_step = 0; half_step < 2 * iterations; ++half_step) {
    normalise(logs, lines_of(half_step, rows, columns));
    std::copy_n(logs, count, steps + half_step * count);
  }
  for (int64_t i = 0; i < count; ++i) result[i] = static_cast<T>(std::exp(logs[i]));
}

template <typename T>
void sinkhorn_backward(Cpu, T* dscores, bool accumulate, const T* dresult, const double* steps, const T* scores,
                       double temperature, int64_t iterations, int64_t rows, int64_t columns) {
  check(temperature, iterations, rows, columns);
  const int64_t count = rows * columns;
  double gradient[kMaxRegimes * kMaxRegimes];
  const double* const last = steps + (2 * iterations - 1) * count;
  for (int64_t i = 0; i < count; ++i) gradient[i] = static_cast<double>(dresult[i]) * std::exp(last[i]);
  for (int64_t half_step = 2 * iterations - 1; half_step >= 0; --half_step)
    normalise_backward(gradient, steps + half_step * count, lines_of(half_step, rows, columns));
  for (int64_t i = 0; i < count; ++i) {
    const bool clamped = std::abs(static_cast<double>(scores[i]) / temperature) > kLogLimit;
    const double value = clamped ? 0.0 : gradient[i] / temperature;
    dscores[i] = static_cast<T>((accumulate ? static_cast<double>(dscores[i]) : 0.0) + value);
  }
}

#define LONGHAUL_INSTANTIATE(T)                                                                  \
  template void sinkhorn_forward(Cpu, T*, double*, const T*, double, int64_t, int64_t, int64_t); \
  template void sinkhorn_backward(Cpu, T*, bool, const T*, const double*, const T*, double, int64_t, int64_t, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
