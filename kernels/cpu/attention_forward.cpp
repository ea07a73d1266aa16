#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/cpu/attention_tile.h"

namespace longhaul::kernels {
namespace {

using namespace attention;

constexpr int64_t kQueryBlock = 128;  ///< queries of one unit of work; cuts no bits (attention_tile.h)

/// Working set of one thread: about 80 KiB for float and head size 64.
template <typename T>
struct ForwardTile {
  alignas(64) T rows[kTile * kMaxHeadSize];        ///< packed queries, later the output sums [query][width]
  alignas(64) T transposed[kMaxHeadSize * kTile];  ///< scaled queries [d][query]
  alignas(64) T keys[kTile * kMaxHeadSize];        ///< [key][width]
  alignas(64) T values[kTile * kMaxHeadSize];
  alignas(64) T scores[kTile * kTile];  ///< [key][query], then the exponentials
  alignas(64) T largest[kTile];         ///< running maximum of each query
  alignas(64) T sums[kTile];            ///< running sum of exponentials
  alignas(64) T factors[kTile];         ///< what the sums so far are multiplied with
};

/// Online softmax of one vector of queries over `seen` keys: scores become exponentials below the new maximum.
template <typename T>
[[gnu::noinline]] void softmax_step(ForwardTile<T>& tile, int64_t query, int64_t seen, const QueryTile& queries,
                                    const KeyTile& keys) {
  using V = simd::Vec<T>;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  T* const column = tile.scores + query;
  const V old_largest = simd::load(tile.largest + query);
  V largest = old_largest;
  if (keys.masked) {
    V newest;  // index of the last key each lane sees
    for (int64_t lane = 0; lane < simd::kWidth<T>; ++lane)
      newest[lane] = static_cast<T>(queries.position - keys.first + query + lane);
    for (int64_t key = 0; key < seen; ++key) {
      const V score = simd::load(column + key * kTile);
      const V visible = newest >= static_cast<T>(key) ? score : simd::broadcast(-kInfinity);
      simd::store<T>(column + key * kTile, visible);
      largest = simd::max(visible, largest);
    }
  } else {
    for (int64_t key = 0; key < seen; ++key) largest = simd::max(simd::load(column + key * kTile), largest);
  }
  const V shift = largest > -kInfinity ? largest : V{};  // no key so far: keep inf - inf out
  V sum{};
  for (int64_t key = 0; key < seen; ++key) {
    const V e = simd::exp(simd::load(column + key * kTile) - shift);
    simd::store<T>(column + key * kTile, e);
    sum += e;
  }
  const V factor = simd::exp(old_largest - shift);
  simd::store<T>(tile.largest + query, largest);
  simd::store<T>(tile.factors + query, factor);
  simd::store<T>(tile.sums + query, simd::fma(simd::load(tile.sums + query), factor, sum));
}

/// One tile of keys: scores, softmax, and the values added to the output sums.
template <typename T>
void attend(ForwardTile<T>& tile, const QueryTile& queries, const KeyTile& keys, int64_t head_size, int64_t width) {
  for (int64_t group = 0; group < queries.count; group += kColumns<T>) {
    const int64_t group_end = std::min(group + kColumns<T>, queries.count);
    const int64_t seen = keys.seen_by(queries, group_end - 1);
    if (seen == 0) continue;
    for (int64_t key = 0; key < seen; key += kRows)
      multiply<Into::kOverwrite>(tile.scores + key * kTile + group, kTile, tile.keys + key * width, width, 1,
                                 tile.transposed + group, kTile, head_size);
    for (int64_t vector = 0; vector < kColumns<T>; vector += simd::kWidth<T>)
      softmax_step(tile, group + vector, seen, queries, keys);
    for (int64_t query = group; query < group_end; query += kRows) {
      const int64_t depth = keys.seen_by(queries, std::min(query + kRows, group_end) - 1);
      for (int64_t d = 0; d < width; d += kColumns<T>)
        multiply<Into::kScaleAdd>(tile.rows + query * width + d, width, tile.scores + query, 1, kTile, tile.values + d,
                                  width, depth, tile.factors + query);
    }
  }
}

template <typename T>
void write_output(const ForwardTile<T>& tile, T* out, T* lse, int64_t out_stride, int64_t count, int64_t head_size,
                  int64_t width) {
  for (int64_t query = 0; query < count; ++query) {
    const T sum = tile.sums[query];
    const T inverse = sum == 0 ? T(0) : T(1) / sum;  // a query without keys gives 0; NaN stays NaN
    lse[query] = sum == 0 ? -std::numeric_limits<T>::infinity() : tile.largest[query] + std::log(sum);
    for (int64_t d = 0; d < head_size; ++d) out[query * out_stride + d] = tile.rows[query * width + d] * inverse;
  }
}

}  // namespace

template <typename T>
void attention_forward(Cpu, T* out, T* lse, const T* q, const T* k, const T* v, const int32_t* document_start,
                       const AttentionShape& shape) {
  check_shape(shape, false);
  const int64_t length = shape.query_length, offset = shape.key_length - length, head_size = shape.head_size;
  const int64_t blocks = (length + kQueryBlock - 1) / kQueryBlock, width = round_up(head_size, kColumns<T>);
  const int64_t units = shape.batch * shape.query_heads * blocks;
#pragma omp parallel for schedule(dynamic, 1) if (units > 1 && attention_work(shape) >= kParallelElements)
  for (int64_t unit = 0; unit < units; ++unit) {
    const int64_t row = unit / (shape.query_heads * blocks), head = unit / blocks % shape.query_heads;
    const int64_t first = unit % blocks * kQueryBlock, end = std::min(first + kQueryBlock, length);
    const T* const q_head = q + row * length * shape.q_stride + head * head_size;
    const int64_t kv_head =
        row * shape.key_length * shape.kv_stride + head * shape.key_heads / shape.query_heads * head_size;
    T* const out_head = out + row * length * shape.out_stride + head * head_size;
    T* const lse_head = lse + (row * shape.query_heads + head) * length;
    const int32_t* const starts = document_start == nullptr ? nullptr : document_start + row * length;
    ForwardTile<T> tile;
    for (int64_t query = first; query < end;) {
      const QueryTile queries = query_tile(starts, query, end, offset);
      const int64_t padded = round_up(queries.count, kColumns<T>);
      pack_rows(tile.rows, width, padded, q_head + query * shape.q_stride, shape.q_stride, queries.count, head_size,
                static_cast<T>(shape.scale));
      transpose(tile.transposed, tile.rows, width, padded, head_size);
      std::fill(tile.rows, tile.rows + padded * width, T(0));
      std::fill(tile.sums, tile.sums + padded, T(0));
      std::fill(tile.largest, tile.largest + padded, -std::numeric_limits<T>::infinity());
      for (int64_t key = queries.start; key <= queries.last_position(); key += kTile) {
        const KeyTile keys(queries, key);
        const int64_t at = kv_head + key * shape.kv_stride, key_rows = round_up(keys.count, kRows);
        pack_rows(tile.keys, width, key_rows, k + at, shape.kv_stride, keys.count, head_size, T(1));
        pack_rows(tile.values, width, key_rows, v + at, shape.kv_stride, keys.count, head_size, T(1));
        attend(tile, queries, keys, head_size, width);
      }
      write_output(tile, out_head + query * shape.out_stride, lse_head + query, shape.out_stride, queries.count,
                   head_size, width);
      query += queries.count;
    }
  }
}

template void attention_forward(Cpu, float*, float*, const float*, const float*, const float*, const int32_t*,
                                const AttentionShape&);
template void attention_forward(Cpu, double*, double*, const double*, const double*, const double*, const int32_t*,
                                const AttentionShape&);

}  // namespace longhaul::kernels
