#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/cpu/attention_prior_tile.h"

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
  PriorTile<T> prior;
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
      newest[lane] = static_cast<T>(queries.positions[query + lane] - keys.first);
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
    const bool biased = tile.prior.rank > 0;
    if (biased) put_prior(tile.scores, tile.prior, group, group_end - group, keys.first, seen);
    for (int64_t key = 0; key < seen; key += kRows)
      (biased ? multiply<Into::kAdd, T>
              : multiply<Into::kOverwrite, T>)(tile.scores + key * kTile + group, kTile, tile.keys + key * width, width,
                                               1, tile.transposed + group, kTile, head_size, nullptr);
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

/// The queries of one unit of work: query [begin, end) of a row, one head.
template <typename T>
struct ForwardUnit {
  T *out, *lse;
  const T *q, *k, *v;
  RowQueries queries;
  AttentionPrior<T> prior;
};

template <typename T>
void run_unit(const ForwardUnit<T>& unit, int64_t begin, int64_t end, const AttentionShape& shape) {
  const int64_t head_size = shape.head_size, width = round_up(head_size, kColumns<T>);
  ForwardTile<T> tile;
  for (int64_t query = begin; query < end;) {
    const QueryTile queries = query_tile(unit.queries, query, end);
    const int64_t padded = round_up(queries.count, kColumns<T>);
    pack_rows(tile.rows, width, padded, unit.q + query * shape.q_stride, shape.q_stride, queries.count, head_size,
              static_cast<T>(shape.scale));
    transpose(tile.transposed, tile.rows, width, padded, head_size);
    tile.prior.load(unit.prior, queries);
    std::fill(tile.rows, tile.rows + padded * width, T(0));
    std::fill(tile.sums, tile.sums + padded, T(0));
    std::fill(tile.largest, tile.largest + padded, -std::numeric_limits<T>::infinity());
    for (int64_t key = queries.start; key <= queries.last_position(); key += kTile) {
      const KeyTile keys(queries, key);
      const int64_t at = key * shape.kv_stride, key_rows = round_up(keys.count, kRows);
      pack_rows(tile.keys, width, key_rows, unit.k + at, shape.kv_stride, keys.count, head_size, T(1));
      pack_rows(tile.values, width, key_rows, unit.v + at, shape.kv_stride, keys.count, head_size, T(1));
      attend(tile, queries, keys, head_size, width);
    }
    write_output(tile, unit.out + query * shape.out_stride, unit.lse + query, shape.out_stride, queries.count,
                 head_size, width);
    query += queries.count;
  }
}

/// queries_of(row) are the row's queries, longest of them `most`, `total` in all; lse of (row, head) begins at
/// lse_at(queries, row, head).
template <typename T, typename QueriesOf, typename LseAt>
void forward(T* out, T* lse, const T* q, const T* k, const T* v, int64_t most, int64_t total, QueriesOf queries_of,
             LseAt lse_at, const AttentionShape& shape, const AttentionPrior<T>& prior) {
  const int64_t blocks = (most + kQueryBlock - 1) / kQueryBlock, units = shape.batch * shape.query_heads * blocks;
#pragma omp parallel for schedule(dynamic, 1) if (units > 1 && attention_work(shape, total) >= kParallelElements)
  for (int64_t unit = 0; unit < units; ++unit) {
    const int64_t row = unit / (shape.query_heads * blocks), head = unit / blocks % shape.query_heads;
    const RowQueries queries = queries_of(row);
    const int64_t begin = unit % blocks * kQueryBlock, end = std::min(begin + kQueryBlock, queries.count);
    const int64_t key_head = head * shape.key_heads / shape.query_heads;
    const int64_t kv = row * shape.key_length * shape.kv_stride + key_head * shape.head_size;
    run_unit<T>({.out = out + queries.first * shape.out_stride + head * shape.head_size,
                 .lse = lse + lse_at(queries, row, head),
                 .q = q + queries.first * shape.q_stride + head * shape.head_size,
                 .k = k + kv,
                 .v = v + kv,
                 .queries = queries,
                 .prior = prior},
                begin, end, shape);
  }
}

}  // namespace

template <typename T>
void attention_forward(Cpu, T* out, T* lse, const T* q, const T* k, const T* v, const int32_t* document_start,
                       const AttentionShape& shape, const AttentionPrior<T>& prior) {
  check_shape(shape, false);
  check_prior(shape, prior.rank, prior.length);
  forward(
      out, lse, q, k, v, shape.query_length, shape.batch * shape.query_length,
      [&](int64_t row) { return consecutive_queries(document_start, shape, row); },
      [&](const RowQueries&, int64_t row, int64_t head) {
        return (row * shape.query_heads + head) * shape.query_length;
      },
      shape, prior);
}

template <typename T>
void attention_rows_forward(Cpu, T* out, T* lse, const T* q, const T* k, const T* v, const int32_t* query_rows,
                            int64_t count, const int32_t* document_start, const AttentionShape& shape,
                            const AttentionPrior<T>& prior) {
  check_shape(shape, true);
  check_prior(shape, prior.rank, prior.length);
  forward(
      out, lse, q, k, v, count, count,
      [&](int64_t row) { return chosen_queries(query_rows, count, document_start, shape, row); },
      [&](const RowQueries& queries, int64_t, int64_t head) { return head * count + queries.first; }, shape, prior);
}

#define LONGHAUL_INSTANTIATE(T)                                                                                     \
  template void attention_forward(Cpu, T*, T*, const T*, const T*, const T*, const int32_t*, const AttentionShape&, \
                                  const AttentionPrior<T>&);                                                        \
  template void attention_rows_forward(Cpu, T*, T*, const T*, const T*, const T*, const int32_t*, int64_t,          \
                                       const int32_t*, const AttentionShape&, const AttentionPrior<T>&);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
