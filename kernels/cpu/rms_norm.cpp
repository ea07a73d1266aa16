#include "kernels/rms_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels {

template <typename T>
void rms_norm_forward(Cpu, T* y, T* rstd, const T* x, const T* weight, int64_t rows, int64_t columns, double epsilon) {
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const in = x + row * columns;
      const T square = simd::transform_sum<T>(
          columns, [](auto value) { return value * value; }, in);
      const T r = T(1) / std::sqrt(square / static_cast<T>(columns) + static_cast<T>(epsilon));
      rstd[row] = r;
      simd::transform(
          y + row * columns, columns, [r](auto value, auto w) { return (value * r) * w; }, in, weight);
    }
  });
}

namespace {

/// dx of one row: rstd * (g - xhat mean(g xhat)), g = dy * weight, xhat = x rstd.
template <typename T>
void input_gradient(T* dx, bool accumulate, const T* dy, const T* x, const T* weight, T rstd, int64_t columns) {
  const T sum_gx = simd::transform_sum<T>(
      columns, [=](auto g, auto w, auto value) { return (g * w) * (value * rstd); }, dy, weight, x);
  const T mean_gx = sum_gx / static_cast<T>(columns);
  const auto gradient = [=](auto g, auto w, auto value) { return rstd * (g * w - value * rstd * mean_gx); };
  if (accumulate)
    simd::transform(
        dx, columns, [=](auto old, auto g, auto w, auto value) { return old + gradient(g, w, value); }, dx, dy, weight,
        x);
  else
    simd::transform(dx, columns, gradient, dy, weight, x);
}

constexpr int64_t kColumnBlock = 512;  ///< columns whose sums are kept in the first-level cache

/// Sums over rows, in order, of dy * xhat for `columns` columns.
template <typename T>
void parameter_sums(T* __restrict sums, const T* __restrict dy, const T* __restrict x, const T* rstd, int64_t rows,
                    int64_t stride, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, dy += stride, x += stride) {
    const T r = rstd[row];
    for (int64_t c = 0; c < columns; ++c) sums[c] += dy[c] * (x[c] * r);
  }
}

}  // namespace

template <typename T>
void rms_norm_backward(Cpu, T* dx, bool accumulate, T* dweight, bool accumulate_parameters, const T* dy, const T* x,
                       const T* weight, const T* rstd, int64_t rows, int64_t columns) {
  // Columns first: dx may be dy.
  parallel_ranges(columns, 16, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kColumnBlock) {
      const int64_t width = std::min(kColumnBlock, end - first);
      T sums[kColumnBlock] = {};
      parameter_sums(sums, dy + first, x + first, rstd, rows, columns, width);
      for (int64_t c = 0; c < width; ++c)
        dweight[first + c] = accumulate_parameters ? dweight[first + c] + sums[c] : sums[c];
    }
  });
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      input_gradient(dx + row * columns, accumulate, dy + row * columns, x + row * columns, weight, rstd[row], columns);
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                              \
  template void rms_norm_forward(Cpu, T*, T*, const T*, const T*, int64_t, int64_t, double); \
  template void rms_norm_backward(Cpu, T*, bool, T*, bool, const T*, const T*, const T*, const T*, int64_t, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
