// Shared by the kernel tests: reproducible data, comparison, and gradients by central differences.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/philox.h"

namespace longhaul::kernels {

/// `count` values in [-1, 1), a function of `stream` alone.
template <typename T>
std::vector<T> random_values(int64_t count, uint32_t stream) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits[4];
    random_bits4(RandomKey{.seed = 17, .step = 0, .layer = stream}, 0, static_cast<uint64_t>(i), bits);
    const uint64_t word = (static_cast<uint64_t>(bits[0]) << 32) | bits[1];
    values[static_cast<size_t>(i)] = static_cast<T>(static_cast<double>(word >> 11) / 4503599627370496.0 - 1.0);
  }
  return values;
}

/// Same bits in both (NaN compares by its bits).
template <typename T>
::testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes " << a.size() << " and " << b.size();
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0)
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  return ::testing::AssertionSuccess();
}

/// max |a - b| / (max |b| + tiny): the error relative to the size of the whole vector.
template <typename A, typename B>
double relative_error(const std::vector<A>& a, const std::vector<B>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 1e-30, error = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return error / largest;
}

/// Tolerance of relative_error for sums of a few hundred terms.
template <typename T>
constexpr double tolerance() {
  return sizeof(T) == 4 ? 3e-6 : 1e-13;
}

/// Gradient of `loss` at `x` by central differences of fourth order: error about step^4 + 1e-16 / step.
inline std::vector<double> numeric_gradient(std::vector<double> x,
                                            const std::function<double(const std::vector<double>&)>& loss) {
  constexpr double kStep = 1e-3;
  std::vector<double> gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double centre = x[i];
    const auto at = [&](double shift) {
      x[i] = centre + shift;
      return loss(x);
    };
    gradient[i] = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
    x[i] = centre;
  }
  return gradient;
}

/// sum_i a[i] * b[i].
inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

/// Runs `work` on 1, 2 and 3 threads and checks that it returns the same bits.
template <typename F>
void expect_same_on_any_threads(F work) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto alone = work();
  for (int threads : {2, 3}) {
    omp_set_num_threads(threads);
    EXPECT_TRUE(same_bits(alone, work())) << threads << " threads";
  }
  omp_set_num_threads(before);
}

}  // namespace longhaul::kernels
