#include "kernels/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels {

using simd::fma;

template <typename T>
void layer_norm_forward(Cpu, T* y, T* mean, T* rstd, const T* x, const T* weight, const T* bias, int64_t rows,
                        int64_t columns, double epsilon) {
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const in = x + row * columns;
      const T m = simd::transform_sum<T>(
                      columns, [](auto value) { return value; }, in) /
                  static_cast<T>(columns);
      const T square = simd::transform_sum<T>(
          columns, [m](auto value) { return (value - m) * (value - m); }, in);
      const T r = T(1) / std::sqrt(square / static_cast<T>(columns) + static_cast<T>(epsilon));
      mean[row] = m;
      rstd[row] = r;
      simd::transform(
          y + row * columns, columns, [m, r](auto value, auto w, auto b) { return fma((value - m) * r, w, b); }, in,
          weight, bias);
    }
  });
}

namespace {

/// dx of one row: rstd * (g - mean(g) - xhat mean(g xhat)), g = dy * weight.
template <typename T>
void input_gradient(T* dx, bool accumulate, const T* dy, const T* x, const T* weight, T mean, T rstd, int64_t columns) {
  const T sum_g = simd::transform_sum<T>(
      columns, [](auto g, auto w) { return g * w; }, dy, weight);
  const T sum_gx = simd::transform_sum<T>(
      columns, [=](auto g, auto w, auto value) { return (g * w) * ((value - mean) * rstd); }, dy, weight, x);
  const T mean_g = sum_g / static_cast<T>(columns), mean_gx = sum_gx / static_cast<T>(columns);
  const auto gradient = [=](auto g, auto w, auto value) {
    return rstd * ((g * w - mean_g) - (value - mean) * rstd * mean_gx);
  };
  if (accumulate)
    simd::transform(
        dx, columns, [=](auto old, auto g, auto w, auto value) { return old + gradient(g, w, value); }, dx, dy, weight,
        x);
  else
    simd::transform(dx, columns, gradient, dy, weight, x);
}

constexpr int64_t kColumnBlock = 512;  ///< columns whose two sums are kept in the first-level cache

/// Sums over rows, in order, of dy and of dy * xhat for `columns` columns.
template <typename T>
void parameter_sums(T* __restrict weight_sums, T* __restrict bias_sums, const T* __restrict dy, const T* __restrict x,
                    const T* mean, const T* rstd, int64_t rows, int64_t stride, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, dy += stride, x += stride) {
    const T m = mean[row], r = rstd[row];
    for (int64_t c = 0; c < columns; ++c) {
      bias_sums[c] += dy[c];
      weight_sums[c] += dy[c] * ((x[c] - m) * r);
    }
  }
}

}  // namespace

template <typename T>
void layer_norm_backward(Cpu, T* dx, bool accumulate, T* dweight, T* dbias, bool accumulate_parameters, const T* dy,
                         const T* x, const T* weight, const T* mean, const T* rstd, int64_t rows, int64_t columns) {
  // Columns first: dx may be dy.
  parallel_ranges(columns, 16, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kColumnBlock) {
      const int64_t width = std::min(kColumnBlock, end - first);
      T weight_sums[kColumnBlock] = {}, bias_sums[kColumnBlock] = {};
      parameter_sums(weight_sums, bias_sums, dy + first, x + first, mean, rstd, rows, columns, width);
      for (int64_t c = 0; c < width; ++c) {
        dweight[first + c] = accumulate_parameters ? dweight[first + c] + weight_sums[c] : weight_sums[c];
        dbias[first + c] = accumulate_parameters ? dbias[first + c] + bias_sums[c] : bias_sums[c];
      }
    }
  });
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      input_gradient(dx + row * columns, accumulate, dy + row * columns, x + row * columns, weight, mean[row],
                     rstd[row], columns);
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                                                    \
  template void layer_norm_forward(Cpu, T*, T*, T*, const T*, const T*, const T*, int64_t, int64_t, double);       \
  template void layer_norm_backward(Cpu, T*, bool, T*, T*, bool, const T*, const T*, const T*, const T*, const T*, \
                                    int64_t, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
