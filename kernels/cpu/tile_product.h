// Products of the small matrices inside a chunk of a recurrence. They stay in the first-level cache, where packing and
// choosing as BLAS does costs more than the product, and half of many of them is known to be zero.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/simd.h"

namespace longhaul::kernels {

/// Which part of A holds something. Zeros must stand in the rest: register tiles on the diagonal read some of it.
enum class Part { kAll, kLower, kUpper };

/// C [rows, columns] = (or with add, +=) A [rows, depth] B [depth, columns], element (i, t) of A at a[i * a_row + t *
/// a_depth]. Every element is a chain of fma with t rising, so its bits depend neither on its place nor on the sizes.
template <typename T>
struct TileProduct {
  T* c;
  int64_t c_stride;
  const T* a;
  int64_t a_row, a_depth;
  const T* b;
  int64_t b_stride;
  int64_t rows, columns, depth;
  bool add = false;
  Part a_part = Part::kAll;
  bool lower_c = false;  ///< only C's lower triangle and its diagonal are wanted
};

// V is in the templates' names so that the variants of the kernel library and a program that includes this file never
// share a function.
namespace tile {

inline constexpr int64_t kRows = 4, kVectors = 3;  ///< what a register tile of C holds

/// `rows` x `vectors` vectors of C; the last vector has `count` columns.
template <int64_t rows, int64_t vectors, bool whole, typename T, typename V = simd::Vec<T>>
inline void multiply(const TileProduct<T>& p, int64_t i, int64_t j, int64_t first, int64_t last, int64_t count) {
  constexpr int64_t kWidth = simd::kWidth<T>;
  T* c = p.c + i * p.c_stride + j;
  V sums[rows][vectors];
#pragma GCC unroll 8
  for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < vectors; ++v) {
      T* at = c + r * p.c_stride + v * kWidth;
      sums[r][v] = !p.add ? V{} : whole ? simd::load(at) : simd::load_part(at, count);
    }
  }
  const T* a = p.a + i * p.a_row + first * p.a_depth;
  const T* b = p.b + first * p.b_stride + j;
  for (int64_t t = first; t < last; ++t, a += p.a_depth, b += p.b_stride) {
    V row[vectors];
#pragma GCC unroll 8
    for (int64_t v = 0; v < vectors; ++v) row[v] = whole ? simd::load(b + v * kWidth) : simd::load_part(b, count);
#pragma GCC unroll 8
    for (int64_t r = 0; r < rows; ++r) {
      const V value = simd::broadcast(a[r * p.a_row]);
#pragma GCC unroll 8
      for (int64_t v = 0; v < vectors; ++v) sums[r][v] = simd::fma(value, row[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < vectors; ++v) {
      T* at = c + r * p.c_stride + v * kWidth;
      if constexpr (whole) {
        simd::store<T>(at, sums[r][v]);
      } else {
        simd::store_part<T>(at, sums[r][v], count);
      }
    }
  }
}

template <int64_t rows, typename T, typename V = simd::Vec<T>>
void multiply_rows(const TileProduct<T>& p, int64_t i) {
  constexpr int64_t kWidth = simd::kWidth<T>;
  const int64_t first = p.a_part == Part::kUpper ? i : 0;
  const int64_t last = p.a_part == Part::kLower ? std::min(p.depth, i + rows) : p.depth;
  const int64_t end = p.lower_c ? std::min(p.columns, i + rows) : p.columns;
  int64_t j = 0;
  for (; j < end && j + kVectors * kWidth <= p.columns; j += kVectors * kWidth) {
    multiply<rows, kVectors, true>(p, i, j, first, last, 0);
  }
  for (; j < end && j + 2 * kWidth <= p.columns; j += 2 * kWidth) multiply<rows, 2, true>(p, i, j, first, last, 0);
  for (; j < end && j + kWidth <= p.columns; j += kWidth) multiply<rows, 1, true>(p, i, j, first, last, 0);
  if (j < end) multiply<rows, 1, false>(p, i, j, first, last, p.columns - j);
}

}  // namespace tile

template <typename T, typename V = simd::Vec<T>>
void tile_product(const TileProduct<T>& p) {
  int64_t i = 0;
  for (; i + tile::kRows <= p.rows; i += tile::kRows) tile::multiply_rows<tile::kRows>(p, i);
  for (; i < p.rows; ++i) tile::multiply_rows<1>(p, i);
}

/// target [rows, columns], dense, = source with rows `stride` apart.
template <typename T>
void pack(T* target, const T* source, int64_t stride, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(source + i * stride, columns, target + i * columns);
}

/// target [columns, rows], dense, = transpose of source.
template <typename T>
void pack_transposed(T* target, const T* source, int64_t stride, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 8;
  int64_t i = 0;
  for (; i + kBlock <= rows; i += kBlock) {
    const T* from = source + i * stride;
    T* to = target + i;
    for (int64_t c = 0; c < columns; ++c, ++from, to += rows) {
#pragma GCC unroll 8
      for (int64_t r = 0; r < kBlock; ++r) to[r] = from[r * stride];
    }
  }
  for (; i < rows; ++i) {
    for (int64_t c = 0; c < columns; ++c) target[c * rows + i] = source[i * stride + c];
  }
}

}  // namespace longhaul::kernels
