#include "kernels/int16_matmul.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels {
namespace {

typedef int32_t Integers __attribute__((vector_size(simd::kVectorBytes)));

constexpr int64_t kLanes = simd::kWidth<float>;  ///< 32-bit sums of a vector
constexpr int64_t kVectors = 2;                  ///< vectors of sums per row held in registers
constexpr int64_t kPanel = kVectors * kLanes;    ///< columns computed together
constexpr int64_t kRows = 6;                     ///< rows computed together
constexpr int64_t kRowBlock = 32 * kRows;        ///< rows that stay in the second-level cache for all panels
constexpr int64_t kChunk = 256;                  ///< elements quantised at a time; even

int64_t pairs_of(int64_t depth) { return (depth + 1) / 2; }

/// Lane by lane a0 b0 + a1 b1 of pairs of 16-bit integers.
Integers multiply_pairs(Integers a, Integers b) {
#if defined(__AVX512BW__)
  return reinterpret_cast<Integers>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Integers>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__x86_64__) && !defined(__AVX__)
  return reinterpret_cast<Integers>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

/// Scale of a row and what its elements are multiplied with.
struct RowScale {
  float scale = 0, inverse = 0;
};

RowScale row_scale(const float* x, int64_t depth) {
  using V = simd::VecFloat;
  V largest{};
  int64_t i = 0;
  for (; i + kLanes <= depth; i += kLanes) {
    const V value = simd::load(x + i);
    largest = simd::max(value < 0 ? -value : value, largest);
  }
  float most = simd::max_lane(largest);
  for (; i < depth; ++i) most = std::max(std::abs(x[i]), most);
  const float wrong = simd::transform_sum<float>(
      depth, [](auto value) { return value - value; }, x);  // NaN where an element is not finite
  if (std::isnan(wrong)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  const float limit = static_cast<float>(int16_limit(depth));
  const RowScale scale{most / limit, limit / most};
  return std::isfinite(scale.inverse) ? scale : RowScale{};  // zeros, or too small to tell from zeros
}

/// target[i] = x[i] * inverse to the nearest integer.
void quantize(int16_t* target, const float* x, float inverse, int64_t count) {
  constexpr float kRound = simd::ExpConstants<float>::kRound;  // adding it leaves the integer in the low bits
  typedef int16_t Shorts __attribute__((vector_size(simd::kVectorBytes / 2)));
  const auto integers = [inverse](simd::VecFloat value) {
    const simd::VecFloat sum = value * inverse + kRound;
    return __builtin_convertvector(reinterpret_cast<Integers>(sum), Shorts);
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Shorts vector = integers(simd::load(x + i));
    std::memcpy(target + i, &vector, sizeof(vector));
  }
  if (i == count) return;
  const Shorts vector = integers(simd::load_part(x + i, count - i));
  std::memcpy(target + i, &vector, static_cast<size_t>(count - i) * sizeof(int16_t));
}

/// Columns [0, count) of one panel: [pair][column][2], zeros in the columns from `count` on.
void quantize_panel(int16_t* panel, float* scales, const float* weight, int64_t count, int64_t depth) {
  std::fill_n(panel, int16_right_count(1, depth), int16_t{0});
  for (int64_t column = 0; column < count; ++column) {
    const float* const x = weight + column * depth;
    const RowScale scale = row_scale(x, depth);
    scales[column] = scale.scale;
    for (int64_t first = 0; first < depth; first += kChunk) {
      std::array<int16_t, kChunk> values{};
      const int64_t chunk = std::min(kChunk, depth - first);
      if (scale.inverse != 0) quantize(values.data(), x + first, scale.inverse, chunk);
      for (int64_t pair = 0; pair < pairs_of(chunk); ++pair)
        std::memcpy(panel + ((first / 2 + pair) * kPanel + column) * 2, values.data() + 2 * pair, 4);
    }
  }
}

Integers load(const int16_t* source) {
  Integers vector;
  std::memcpy(&vector, source, sizeof(vector));
  return vector;
}

/// kRowCount rows times one panel.
template <int64_t kRowCount>
[[gnu::noinline]] void multiply(float* c, int64_t c_stride, const int16_t* left, const float* left_scales,
                                const int16_t* panel, const float* right_scales, int64_t pairs) {
  Integers sums[kRowCount][kVectors] = {};
  for (int64_t pair = 0; pair < pairs; ++pair, panel += 2 * kPanel) {
    Integers columns[kVectors];
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) columns[v] = load(panel + 2 * v * kLanes);
#pragma GCC unroll 8
    for (int64_t row = 0; row < kRowCount; ++row) {
      int32_t two;
      std::memcpy(&two, left + 2 * (row * pairs + pair), sizeof(two));
      const Integers value = two - Integers{};
#pragma GCC unroll 8
      for (int64_t v = 0; v < kVectors; ++v) sums[row][v] += multiply_pairs(value, columns[v]);
    }
  }
#pragma GCC unroll 8
  for (int64_t row = 0; row < kRowCount; ++row)
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v)
      simd::store<float>(c + row * c_stride + v * kLanes,
                         __builtin_convertvector(sums[row][v], simd::VecFloat) *
                             (simd::load(right_scales + v * kLanes) * left_scales[row]));
}

/// Rows [0, rows) of at most kRows times one panel of which `columns` are wanted.
void multiply_edge(float* c, int64_t c_stride, const int16_t* left, const float* left_scales, const int16_t* panel,
                   const float* right_scales, int64_t rows, int64_t columns, int64_t pairs) {
  float scales[kPanel] = {}, block[kPanel];
  std::copy_n(right_scales, columns, scales);
  for (int64_t row = 0; row < rows; ++row) {
    multiply<1>(block, kPanel, left + 2 * row * pairs, left_scales + row, panel, scales, pairs);
    std::copy_n(block, columns, c + row * c_stride);
  }
}

}  // namespace

int64_t int16_limit(int64_t depth) {
  const double limit = std::sqrt(2147483647.0 / static_cast<double>(std::max<int64_t>(depth, 2)));
  return std::min<int64_t>(static_cast<int64_t>(limit), 32767);
}

int64_t int16_left_count(int64_t rows, int64_t depth) { return rows * 2 * pairs_of(depth); }
int64_t int16_right_count(int64_t columns, int64_t depth) {
  return (columns + kPanel - 1) / kPanel * kPanel * 2 * pairs_of(depth);
}

void int16_quantize_left(Cpu, int16_t* quantized, float* scales, const float* x, int64_t rows, int64_t depth) {
  parallel_ranges(rows, 1, rows * depth, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int16_t* const target = quantized + row * 2 * pairs_of(depth);
      const RowScale scale = row_scale(x + row * depth, depth);
      scales[row] = scale.scale;
      std::fill_n(target, 2 * pairs_of(depth), int16_t{0});
      if (scale.inverse != 0) quantize(target, x + row * depth, scale.inverse, depth);
    }
  });
}

void int16_quantize_right(Cpu, int16_t* quantized, float* scales, const float* weight, int64_t columns, int64_t depth) {
  parallel_ranges(columns, kPanel, columns * depth, [=](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; column += kPanel)
      quantize_panel(quantized + column * 2 * pairs_of(depth), scales + column, weight + column * depth,
                     std::min(kPanel, end - column), depth);
  });
}

void int16_matmul(Cpu, float* c, int64_t c_stride, const int16_t* left, const float* left_scales, const int16_t* right,
                  const float* right_scales, int64_t rows, int64_t columns, int64_t depth) {
  const int64_t pairs = pairs_of(depth), full_columns = columns / kPanel * kPanel;
  parallel_ranges(rows, kRows, rows * columns * depth, [=](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; block += kRowBlock) {
      const int64_t stop = std::min(block + kRowBlock, end), full_rows = block + (stop - block) / kRows * kRows;
      for (int64_t column = 0; column < columns; column += kPanel) {
        const int16_t* const panel = right + column * 2 * pairs;
        const auto edge = [&](int64_t row, int64_t last) {
          multiply_edge(c + row * c_stride + column, c_stride, left + 2 * row * pairs, left_scales + row, panel,
                        right_scales + column, last - row, std::min(kPanel, columns - column), pairs);
        };
        if (column == full_columns) {
          edge(block, stop);
          continue;
        }
        for (int64_t row = block; row < full_rows; row += kRows)
          multiply<kRows>(c + row * c_stride + column, c_stride, left + 2 * row * pairs, left_scales + row, panel,
                          right_scales + column, pairs);
        edge(full_rows, stop);
      }
    }
  });
}

}  // namespace longhaul::kernels
