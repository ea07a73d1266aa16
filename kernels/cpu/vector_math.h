// Whole-array forms of the vector functions.
#pragma once

#include "kernels/cpu/simd.h"

namespace longhaul::kernels {

/// values[i] = exp(values[i]).
template <typename T>
void exp_in_place(T* values, int64_t count) {
  simd::transform(
      values, count, [](auto x) { return simd::exp(x); }, values);
}

/// Sum of a[i] * b[i] in rising i, in T.
template <typename T>
double dot(const T* a, const T* b, int64_t count) {
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return static_cast<double>(sum);
}

}  // namespace longhaul::kernels
