#include "kernels/rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kColumnGranule = 16;  ///< columns that threads do not share: a cache line of floats
constexpr int64_t kColumnBlock = 512;   ///< columns whose sums are kept in the first-level cache

template <typename T>
constexpr T kLowestRaw = T(-1);  ///< alpha never falls below sigmoid(-1) = 0.27

/// Calls f(row, first, last) for every row of [0, n): entries [first, last) of `rows` name it. Each row whole by one
/// thread.
template <typename F>
void for_every_row(const int32_t* rows, int64_t count, int64_t n, int64_t columns, F f) {
  parallel_ranges(n, 1, n * columns, [=](int64_t begin, int64_t end) {
    int64_t entry = std::lower_bound(rows, rows + count, begin) - rows;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = entry;
      while (entry < count && rows[entry] == row) ++entry;
      f(row, first, entry);
    }
  });
}

}  // namespace

template <typename T>
void gather_rows(Cpu, T* y, const T* x, const int32_t* rows, int64_t count, int64_t columns) {
  parallel_ranges(count, 1, count * columns, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(x + rows[i] * columns, columns, y + i * columns);
  });
}

template <typename T>
void scatter_rows(Cpu, T* dx, bool accumulate, const T* dy, const int32_t* rows, int64_t count, int64_t n,
                  int64_t columns) {
  for_every_row(rows, count, n, columns, [=](int64_t row, int64_t first, int64_t last) {
    T* const target = dx + row * columns;
    if (!accumulate) std::fill_n(target, columns, T(0));
    for (int64_t i = first; i < last; ++i)
      for (int64_t c = 0; c < columns; ++c) target[c] += dy[i * columns + c];
  });
}

template <typename T>
void channel_gate(Cpu, T* alpha, const T* raw_alpha, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) alpha[c] = T(1) / (T(1) + std::exp(-std::max(raw_alpha[c], kLowestRaw<T>)));
}

template <typename T>
void gated_rows_forward(Cpu, T* y, const T* h, const T* update, const T* alpha, const int32_t* rows, int64_t count,
                        int64_t n, int64_t columns) {
  for_every_row(rows, count, n, columns, [=](int64_t row, int64_t first, int64_t last) {
    T* const target = y + row * columns;
    if (y != h) std::copy_n(h + row * columns, columns, target);
    for (int64_t i = first; i < last; ++i)
      for (int64_t c = 0; c < columns; ++c) target[c] += alpha[c] * update[i * columns + c];
  });
}

namespace {

/// dupdate of one row in a block of columns, and its share of the sums of dy * update.
template <typename T>
void gated_row(T* __restrict dupdate, bool accumulate, T* __restrict sums, const T* __restrict dy,
               const T* __restrict update, const T* __restrict alpha, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) sums[c] += dy[c] * update[c];
  if (accumulate)
    for (int64_t c = 0; c < columns; ++c) dupdate[c] += alpha[c] * dy[c];
  else
    for (int64_t c = 0; c < columns; ++c) dupdate[c] = alpha[c] * dy[c];
}

}  // namespace

template <typename T>
void gated_rows_backward(Cpu, T* dupdate, bool accumulate_update, T* draw_alpha, bool accumulate_alpha, const T* dy,
                         const T* update, const T* alpha, const T* raw_alpha, const int32_t* rows, int64_t count,
                         int64_t columns) {
  parallel_ranges(columns, kColumnGranule, (count + 1) * columns, [=](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kColumnBlock) {
      const int64_t width = std::min(kColumnBlock, end - first);
      T sums[kColumnBlock] = {};
      for (int64_t i = 0; i < count; ++i)
        gated_row(dupdate + i * columns + first, accumulate_update, sums, dy + rows[i] * columns + first,
                  update + i * columns + first, alpha + first, width);
      for (int64_t c = 0; c < width; ++c) {
        const T a = alpha[first + c], slope = raw_alpha[first + c] < kLowestRaw<T> ? T(0) : a * (T(1) - a);
        draw_alpha[first + c] = (accumulate_alpha ? draw_alpha[first + c] : T(0)) + sums[c] * slope;
      }
    }
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                                                       \
  template void gather_rows(Cpu, T*, const T*, const int32_t*, int64_t, int64_t);                                     \
  template void scatter_rows(Cpu, T*, bool, const T*, const int32_t*, int64_t, int64_t, int64_t);                     \
  template void channel_gate(Cpu, T*, const T*, int64_t);                                                             \
  template void gated_rows_forward(Cpu, T*, const T*, const T*, const T*, const int32_t*, int64_t, int64_t, int64_t); \
  template void gated_rows_backward(Cpu, T*, bool, T*, bool, const T*, const T*, const T*, const T*, const int32_t*,  \
                                    int64_t, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
