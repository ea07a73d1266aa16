// What the two attention kernels share: tiles of queries and keys kept in the first- and second-level cache, packed
// contiguously, and the one small product everything is made of.
//
// Scores are held transposed, [key][query]: a vector holds one key's scores for several queries, so that the softmax
// runs down the keys without crossing lanes, and the transposed matrix serves as the broadcast operand of the next
// product.
//
// Every number of a query's row depends on that query and its keys alone, never on its companions in the tile (masked
// entries are exact zeros), so a row has the same bits however many queries are computed with it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels::attention {

inline constexpr int64_t kTile = 64;          ///< queries and keys of a tile
inline constexpr int64_t kMaxHeadSize = 256;  ///< largest supported head_size
inline constexpr int64_t kRows = 4;           ///< rows of C held in registers by multiply
inline constexpr int64_t kVectors = 2;        ///< vectors of C per row held in registers
template <typename T>
inline constexpr int64_t kColumns = kVectors* simd::kWidth<T>;  ///< columns of C computed together

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// How multiply treats what C holds.
enum class Into {
  kOverwrite,  ///< C = A B
  kAdd,        ///< C += A B
  kScaleAdd    ///< C = factor[row] * C + A B
};

/// C [kRows, kColumns] from A [kRows, depth] (element (r, t) at a[r * a_row + t * a_depth]) and B [depth, kColumns]
/// (rows b_stride apart). One fma per term, t rising.
template <Into into, typename T>
[[gnu::noinline]] void multiply(T* c, int64_t c_stride, const T* a, int64_t a_row, int64_t a_depth, const T* b,
                                int64_t b_stride, int64_t depth, const T* factor = nullptr) {
  using V = simd::Vec<T>;
  constexpr int64_t kWidth = simd::kWidth<T>;
  V sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      if constexpr (into == Into::kOverwrite) sums[r][v] = V{};
      if constexpr (into == Into::kAdd) sums[r][v] = simd::load(c + r * c_stride + v * kWidth);
      if constexpr (into == Into::kScaleAdd) sums[r][v] = simd::load(c + r * c_stride + v * kWidth) * factor[r];
    }
  for (int64_t t = 0; t < depth; ++t, a += a_depth, b += b_stride) {
    V row[kVectors];
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) row[v] = simd::load(b + v * kWidth);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      const V value = simd::broadcast(a[r * a_row]);
#pragma GCC unroll 8
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] = simd::fma(value, row[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) simd::store<T>(c + r * c_stride + v * kWidth, sums[r][v]);
}

/// target [padded_rows, width] = factor * source (rows `stride` apart, head_size columns), zeros around it.
template <typename T>
[[gnu::noinline]] void pack_rows(T* target, int64_t width, int64_t padded_rows, const T* source, int64_t stride,
                                 int64_t rows, int64_t head_size, T factor) {
  for (int64_t row = 0; row < rows; ++row, target += width, source += stride) {
    for (int64_t d = 0; d < head_size; ++d) target[d] = source[d] * factor;
    for (int64_t d = head_size; d < width; ++d) target[d] = 0;
  }
  std::fill(target, target + (padded_rows - rows) * width, T(0));
}

/// Asks for the rows that pack_rows will read next. Rows of packed q|k|v matrices lie kilobytes apart and map to few
/// sets of the caches, so that even a small head's rows come from far away.
template <typename T>
inline void prefetch_rows(const T* source, int64_t stride, int64_t rows, int64_t head_size) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t d = 0; d < head_size; d += kLine) __builtin_prefetch(source + row * stride + d, 0, 2);
}

/// target [depth][kTile] = transpose of source [columns][width]; columns a multiple of kColumns.
template <typename T>
[[gnu::noinline]] void transpose(T* target, const T* source, int64_t width, int64_t columns, int64_t depth) {
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t i = 0; i < columns; ++i) target[d * kTile + i] = source[i * width + d];
}

/// The queries that one row of the batch has: all its last tokens, or some tokens by number.
struct RowQueries {
  int64_t first = 0;                        ///< index of its first query in q and out
  int64_t count = 0;                        ///< queries of this row
  int64_t offset = 0;                       ///< position of query 0; with `rows`: minus the row's first token number
  const int32_t* rows = nullptr;            ///< token number of each query, or null: consecutive positions
  const int32_t* document_start = nullptr;  ///< by query, with `rows` by position; null: 0 everywhere

  int64_t position(int64_t query) const { return offset + (rows == nullptr ? query : rows[query]); }
  int64_t start(int64_t query) const {
    if (document_start == nullptr) return 0;
    return std::max<int64_t>(document_start[rows == nullptr ? query : position(query)], 0);
  }
  /// The first query at this position or behind it.
  int64_t first_from(int64_t wanted) const {
    if (rows == nullptr) return std::clamp<int64_t>(wanted - offset, 0, count);
    return std::lower_bound(rows, rows + count, wanted - offset) - rows;
  }
};

/// Row `row` of a batch whose queries are its last query_length tokens.
inline RowQueries consecutive_queries(const int32_t* document_start, const AttentionShape& shape, int64_t row) {
  const int64_t length = shape.query_length;
  return {.first = row * length,
          .count = length,
          .offset = shape.key_length - length,
          .document_start = document_start == nullptr ? nullptr : document_start + row * length};
}

/// Row `row` of a batch whose queries are `count` tokens in rising order.
inline RowQueries chosen_queries(const int32_t* query_rows, int64_t count, const int32_t* document_start,
                                 const AttentionShape& shape, int64_t row) {
  const int64_t length = shape.key_length;
  const auto before = [=](int64_t token) {
    return std::lower_bound(query_rows, query_rows + count, token) - query_rows;
  };
  const int64_t first = before(row * length);
  return {.first = first,
          .count = before((row + 1) * length) - first,
          .offset = -row * length,
          .rows = query_rows + first,
          .document_start = document_start == nullptr ? nullptr : document_start + row * length};
}

/// A run of queries of one head whose documents start at the same key.
struct QueryTile {
  int64_t first = 0;         ///< index of the first query in the row
  int64_t count = 0;         ///< 1..kTile queries
  int64_t start = 0;         ///< first key they may see
  int64_t positions[kTile];  ///< key position of each, rising; padding repeats the last

  int64_t last_position() const { return positions[kTile - 1]; }
};

/// The tile that begins with query `first`; it ends before `end`. Consecutive queries lie in one tile counted from the
/// document's start; chosen ones are counted from the document's first query (if `first` is one).
inline QueryTile query_tile(const RowQueries& queries, int64_t first, int64_t end) {
  QueryTile tile{.first = first, .count = 1, .start = queries.start(first), .positions = {}};
  const int64_t position = queries.position(first), distance = position - tile.start;  // below 0: it sees no key
  int64_t room = kTile;
  if (queries.rows == nullptr) room = distance < 0 ? std::min(-distance, kTile) : kTile - distance % kTile;
  while (tile.count < room && first + tile.count < end && queries.start(first + tile.count) == tile.start) ++tile.count;
  for (int64_t i = 0; i < kTile; ++i) tile.positions[i] = queries.position(first + std::min(i, tile.count - 1));
  return tile;
}

/// A tile of keys against a tile of queries.
struct KeyTile {
  int64_t first = 0;    ///< key position
  int64_t count = 0;    ///< 1..kTile keys, the last of them seen by the last query
  bool masked = false;  ///< some query of the tile does not see all keys (padding rows included)

  KeyTile(const QueryTile& queries, int64_t first_key)
      : first(first_key),
        count(std::min(kTile, queries.last_position() - first_key + 1)),
        masked(first_key + round_up(count, kRows) - 1 > queries.positions[0]) {}
  /// Keys that query `index` of the tile sees, counted from the tile's first.
  int64_t seen_by(const QueryTile& queries, int64_t index) const {
    return std::clamp<int64_t>(queries.positions[index] - first + 1, 0, count);
  }
};

/// Elements read if every query saw every key: what decides whether waking other threads pays.
inline int64_t attention_work(const AttentionShape& shape, int64_t queries) {
  return queries * shape.query_heads * (shape.key_length + 1) * shape.head_size;
}

/// Throws where a size is outside what the kernels can do.
void check_shape(const AttentionShape& shape, bool backward);

}  // namespace longhaul::kernels::attention
