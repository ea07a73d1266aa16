#include "kernels/pointwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels {

template <typename T>
void fill(Cpu, T* y, T value, int64_t count) {
  parallel_ranges(count, 1024, count, [=](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
}

template <typename T>
void add(Cpu, T* y, const T* a, const T* b, int64_t count) {
  parallel_ranges(count, 1024, count, [=](int64_t begin, int64_t end) {
    simd::transform(
        y + begin, end - begin, [](auto left, auto right) { return left + right; }, a + begin, b + begin);
  });
}

template <typename T>
void scale(Cpu, T* y, T factor, int64_t count) {
  parallel_ranges(count, 1024, count, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] *= factor;
  });
}

template <typename T>
void add_bias(Cpu, T* y, const T* bias, int64_t rows, int64_t columns) {
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      simd::transform(
          y + row * columns, columns, [](auto value, auto shift) { return value + shift; }, y + row * columns, bias);
  });
}

namespace {

/// Columns one thread sums at a time: the sums stay in the first-level cache while the rows stream past.
constexpr int64_t kColumnBlock = 512;

/// sums[c] += dy[row][c] over all rows, one after another.
template <typename T>
void sum_columns(T* __restrict sums, const T* __restrict dy, int64_t rows, int64_t stride, int64_t columns) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4, dy += 4 * stride)
    for (int64_t c = 0; c < columns; ++c)
      sums[c] = (((sums[c] + dy[c]) + dy[stride + c]) + dy[2 * stride + c]) + dy[3 * stride + c];
  for (; row < rows; ++row, dy += stride)
    for (int64_t c = 0; c < columns; ++c) sums[c] += dy[c];
}

}  // namespace

template <typename T>
void column_sum(Cpu, T* dbias, bool accumulate, const T* dy, int64_t rows, int64_t columns) {
  parallel_ranges(columns, 16, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kColumnBlock) {
      const int64_t width = std::min(kColumnBlock, end - first);
      T sums[kColumnBlock] = {};
      sum_columns(sums, dy + first, rows, columns, width);
      for (int64_t c = 0; c < width; ++c) dbias[first + c] = accumulate ? dbias[first + c] + sums[c] : sums[c];
    }
  });
}

template <typename To, typename From>
void convert(Cpu, To* out, const From* in, int64_t count) {
  parallel_ranges(count, 1024, count, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<To>(in[i]);
  });
}

namespace {

constexpr int64_t kSquareBlock = 4096;

/// Eight interleaved sums in double, then one fixed tree.
template <typename T>
double block_sum_of_squares(const T* x, int64_t count) {
  constexpr int64_t kLanes = 8;
  double sums[2][kLanes] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes)
    for (int64_t part = 0; part < 2; ++part)
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const double value = x[i + part * kLanes + lane];
        sums[part][lane] += value * value;
      }
  for (int64_t lane = 0; i < count; ++i, lane = (lane + 1) % kLanes) sums[0][lane] += double(x[i]) * double(x[i]);
  for (int64_t lane = 0; lane < kLanes; ++lane) sums[0][lane] += sums[1][lane];
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t lane = 0; lane < half; ++lane) sums[0][lane] += sums[0][lane + half];
  return sums[0][0];
}

}  // namespace

template <typename T>
double sum_of_squares(Cpu, const T* x, int64_t count) {
  constexpr int64_t kBlocks = 512;  // per round, so that the block sums fit on the stack
  double total = 0;
  for (int64_t first = 0; first < count; first += kBlocks * kSquareBlock) {
    const int64_t in_round = std::min(count - first, kBlocks * kSquareBlock);
    double block_sums[kBlocks];
    double* const sums = block_sums;
    parallel_ranges(in_round, kSquareBlock, in_round, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kSquareBlock)
        sums[i / kSquareBlock] = block_sum_of_squares(x + first + i, std::min(kSquareBlock, end - i));
    });
    for (int64_t block = 0; block * kSquareBlock < in_round; ++block) total += sums[block];
  }
  return total;
}

template <typename T>
bool all_finite(Cpu, const T* x, int64_t count) {
  bool finite = true;
#pragma omp parallel for reduction(&& : finite) if (count >= kParallelElements) schedule(static)
  for (int64_t first = 0; first < count; first += kSquareBlock) {
    const int64_t end = std::min(count, first + kSquareBlock);
    int bad = 0;
    for (int64_t i = first; i < end; ++i) bad |= !(x[i] - x[i] == 0);  // inf - inf and NaN - NaN are NaN
    finite = finite && bad == 0;
  }
  return finite;
}

template <typename T>
void lerp_average(Cpu, T* average, const T* x, double decay, int64_t count) {
  const T keep = static_cast<T>(decay), take = static_cast<T>(1 - decay);
  parallel_ranges(count, 1024, count, [=](int64_t begin, int64_t end) {
    simd::transform(
        average + begin, end - begin, [=](auto old, auto value) { return keep * old + take * value; }, average + begin,
        x + begin);
  });
}

#define LONGHAUL_INSTANTIATE(T)                                        \
  template void fill(Cpu, T*, T, int64_t);                             \
  template void add(Cpu, T*, const T*, const T*, int64_t);             \
  template void scale(Cpu, T*, T, int64_t);                            \
  template void add_bias(Cpu, T*, const T*, int64_t, int64_t);         \
  template void column_sum(Cpu, T*, bool, const T*, int64_t, int64_t); \
  template double sum_of_squares(Cpu, const T*, int64_t);              \
  template bool all_finite(Cpu, const T*, int64_t);                    \
  template void lerp_average(Cpu, T*, const T*, double, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

template void fill(Cpu, bf16*, bf16, int64_t);
template void convert(Cpu, float*, const float*, int64_t);
template void convert(Cpu, double*, const double*, int64_t);
template void convert(Cpu, double*, const float*, int64_t);
template void convert(Cpu, float*, const double*, int64_t);
template void convert(Cpu, bf16*, const float*, int64_t);
template void convert(Cpu, float*, const bf16*, int64_t);

}  // namespace longhaul::kernels
