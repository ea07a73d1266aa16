#include "kernels/rope.h"

#include <cmath>

#include "kernels/cpu/parallel.h"

namespace longhaul::kernels {
namespace {

/// One head: (low, high) <- (low cos - high sin, high cos + low sin) pair by pair.
template <typename T>
void rotate_head(T* __restrict low, T* __restrict high, const T* __restrict cosines, const T* __restrict sines, T sign,
                 int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const T c = cosines[i], s = sign * sines[i], a = low[i], b = high[i];
    low[i] = a * c - b * s;
    high[i] = b * c + a * s;
  }
}

}  // namespace

template <typename T>
void rope_rotate(Cpu, T* x, const int32_t* position_ids, const T* cos_sin, int64_t rows, int64_t heads,
                 int64_t head_size, int64_t row_stride, bool inverse) {
  const int64_t half = head_size / 2;
  const T sign = inverse ? T(-1) : T(1);
  parallel_ranges(rows, 1, rows * heads * head_size, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const cosines = cos_sin + static_cast<int64_t>(position_ids[row]) * head_size;
      for (int64_t head = 0; head < heads; ++head) {
        T* const low = x + row * row_stride + head * head_size;
        rotate_head(low, low + half, cosines, cosines + half, sign, half);
      }
    }
  });
}

template <typename T>
void rope_table(Cpu, T* cos_sin, int64_t positions, int64_t head_size, double base) {
  const int64_t half = head_size / 2;
  parallel_ranges(positions, 1, positions * head_size, [=](int64_t begin, int64_t end) {
    for (int64_t position = begin; position < end; ++position)
      for (int64_t i = 0; i < half; ++i) {
        const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
        const double angle = static_cast<double>(position) * frequency;
        cos_sin[position * head_size + i] = static_cast<T>(std::cos(angle));
        cos_sin[position * head_size + half + i] = static_cast<T>(std::sin(angle));
      }
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                                           \
  template void rope_rotate(Cpu, T*, const int32_t*, const T*, int64_t, int64_t, int64_t, int64_t, bool); \
  template void rope_table(Cpu, T*, int64_t, int64_t, double);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
