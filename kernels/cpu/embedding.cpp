#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"

namespace longhaul::kernels {

template <typename T>
void embedding_forward(Cpu, T* y, const int32_t* ids, const int32_t* position_ids, const T* tokens, const T* positions,
                       int64_t rows, int64_t columns) {
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const out = y + row * columns;
      const T* const token = tokens + static_cast<int64_t>(ids[row]) * columns;
      if (positions == nullptr) {
        std::copy(token, token + columns, out);
        continue;
      }
      const T* const position = positions + static_cast<int64_t>(position_ids[row]) * columns;
      for (int64_t c = 0; c < columns; ++c) out[c] = token[c] + position[c];
    }
  });
}

template <typename T>
void embedding_backward(Cpu, T* dtable, const int32_t* ids, const T* dy, int64_t rows, int64_t columns) {
  // Columns are shared out, so every element of the table has one owner, which walks the rows in order.
  parallel_ranges(columns, 16, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows; ++row) {
      T* __restrict const target = dtable + static_cast<int64_t>(ids[row]) * columns;
      const T* __restrict const source = dy + row * columns;
      for (int64_t c = begin; c < end; ++c) target[c] += source[c];
    }
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                                                   \
  template void embedding_forward(Cpu, T*, const int32_t*, const int32_t*, const T*, const T*, int64_t, int64_t); \
  template void embedding_backward(Cpu, T*, const int32_t*, const T*, int64_t, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
