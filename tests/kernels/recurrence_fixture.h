// Inputs and comparisons shared by the tests of the recurrent kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/document_chunks.h"

namespace longhaul::kernels {

/// Rows of documents: lengths of the documents of one row.
inline std::vector<int32_t> document_starts(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> starts;
  for (const int64_t length : lengths) starts.insert(starts.end(), length, static_cast<int32_t>(starts.size()));
  return starts;
}

/// The document lengths every recurrent kernel is tried on, for chunk size c.
inline std::vector<std::vector<int64_t>> document_cases(int64_t c) {
  return {{1},   {2}, {3}, {c - 1}, {c}, {c + 1}, {2 * c - 1}, {2 * c + 1}, {1, 2, 3, 4, 5}, {c - 1, 2, c + 3, 1},
          {c, c}};
}

template <typename T>
std::vector<T> uniform_values(int64_t count, double low, double high, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(uniform(engine));
  return values;
}

/// Largest difference over the largest magnitude of the expected values. The inputs are of size one, so gradients that
/// are zero by cancellation (a decay no state passes through) are held to the same bound as an absolute error.
template <typename T, typename U>
double scaled_error(const std::vector<T>& actual, const std::vector<U>& expected) {
  double difference = 0, scale = 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double distance = std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    difference = std::isfinite(distance) ? std::max(difference, distance) : INFINITY;
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
  }
  return difference / scale;
}

}  // namespace longhaul::kernels
