#include "kernels/matvec.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kRows = 3;     ///< rows of x whose sums are held in registers together
constexpr int64_t kOutputs = 4;  ///< rows of the weight that are read side by side

/// y[r][o] = dot(x row r, weight row o) for kRowCount x kOutputCount dot products, each with one vector of sums.
template <int64_t kRowCount, int64_t kOutputCount, typename T>
[[gnu::noinline]] void dots(T* y, int64_t y_stride, const T* x, const T* weight, int64_t inputs) {
  using V = simd::Vec<T>;
  constexpr int64_t kWidth = simd::kWidth<T>;
  V sums[kRowCount][kOutputCount] = {};
  const auto step = [&](auto load) {
    V row[kRowCount];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRowCount; ++r) row[r] = load(x + r * inputs);
#pragma GCC unroll 8
    for (int64_t o = 0; o < kOutputCount; ++o) {
      const V value = load(weight + o * inputs);
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRowCount; ++r) sums[r][o] = simd::fma(row[r], value, sums[r][o]);
    }
  };
  int64_t i = 0;
  for (; i + kWidth <= inputs; i += kWidth) step([i](const T* source) { return simd::load(source + i); });
  if (i < inputs) step([i, inputs](const T* source) { return simd::load_part(source + i, inputs - i); });
  for (int64_t r = 0; r < kRowCount; ++r)
    for (int64_t o = 0; o < kOutputCount; ++o) y[r * y_stride + o] = simd::sum(sums[r][o]);
}

/// All rows against kOutputCount outputs: the weight's rows stay in the first-level cache from the second group on.
template <int64_t kOutputCount, typename T>
void all_rows(T* y, int64_t y_stride, const T* x, const T* weight, int64_t rows, int64_t inputs) {
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows)
    dots<kRows, kOutputCount>(y + row * y_stride, y_stride, x + row * inputs, weight, inputs);
  T* const rest = y + row * y_stride;
  if (rows - row == 2) dots<2, kOutputCount>(rest, y_stride, x + row * inputs, weight, inputs);
  if (rows - row == 1) dots<1, kOutputCount>(rest, y_stride, x + row * inputs, weight, inputs);
}

}  // namespace

template <typename T>
void matvec(Cpu, T* y, const T* x, const T* weight, int64_t rows, int64_t outputs, int64_t inputs) {
  parallel_ranges(outputs, kOutputs, rows * outputs * inputs, [=](int64_t begin, int64_t end) {
    int64_t output = begin;
    for (; output + kOutputs <= end; output += kOutputs)
      all_rows<kOutputs>(y + output, outputs, x, weight + output * inputs, rows, inputs);
    for (; output < end; ++output) all_rows<1>(y + output, outputs, x, weight + output * inputs, rows, inputs);
  });
}

template void matvec(Cpu, float*, const float*, const float*, int64_t, int64_t, int64_t);
template void matvec(Cpu, double*, const double*, const double*, int64_t, int64_t, int64_t);

}  // namespace longhaul::kernels
