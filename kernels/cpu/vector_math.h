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

/// Sum of a[i] * b[i], in T, in an order that depends on count alone.
template <typename T>
double dot(const T* a, const T* b, int64_t count) {
  return static_cast<double>(simd::transform_sum<T>(
      count, [](auto x, auto y) { return x * y; }, a, b));
}

/// y[i] += factor * x[i].
template <typename T>
void add_scaled(T* y, T factor, const T* x, int64_t count) {
  simd::transform(
      y, count, [factor](auto a, auto b) { return simd::fma(simd::broadcast(factor), b, a); }, y, x);
}

/// y[i] (+)= factor * x[i].
template <typename T>
void write_scaled(T* y, bool accumulate, T factor, const T* x, int64_t count) {
  if (accumulate) return add_scaled(y, factor, x, count);
  simd::transform(
      y, count, [factor](auto value) { return factor * value; }, x);
}

}  // namespace longhaul::kernels
