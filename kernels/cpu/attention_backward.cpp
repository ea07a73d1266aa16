// Gradients of attention (Dao et al. 2022, appendix B.4): with P = exp(S - lse), dP = dO V^T, dS = P (dP - delta),
// delta = rowsum(dO O): dV = P^T dO, dQ = scale dS K, dK = scale dS^T Q. Scores are made again tile by tile.
#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/cpu/attention_prior_tile.h"

namespace longhaul::kernels {
namespace {

using namespace attention;

/// Working set of one thread: about 180 KiB for float and head size 64.
template <typename T>
struct BackwardTile {
  alignas(64) T queries[kTile * kMaxHeadSize];  ///< scaled [query][width]
  alignas(64) T queries_transposed[kMaxHeadSize * kTile];
  alignas(64) T dout[kTile * kMaxHeadSize];
  alignas(64) T dout_transposed[kMaxHeadSize * kTile];
  alignas(64) T keys[kTile * kMaxHeadSize];
  alignas(64) T values[kTile * kMaxHeadSize];
  alignas(64) T dq[kTile * kMaxHeadSize];
  alignas(64) T probabilities[kTile * kTile];  ///< [key][query]: scores, then P
  alignas(64) T dscores[kTile * kTile];        ///< [key][query]: dP, then dS
  alignas(64) T lse[kTile];                    ///< +inf where a query sees no key and in padding: P becomes 0
  alignas(64) T delta[kTile];
  PriorTile<T> prior;
};

/// One vector of queries over `rows` keys: S and dP become P and dS.
template <typename T>
[[gnu::noinline]] void score_gradients(BackwardTile<T>& tile, int64_t query, int64_t rows, const QueryTile& queries,
                                       const KeyTile& keys) {
  using V = simd::Vec<T>;
  const V lse = simd::load(tile.lse + query), delta = simd::load(tile.delta + query);
  V newest;  // index of the last key each lane sees
  for (int64_t lane = 0; lane < simd::kWidth<T>; ++lane)
    newest[lane] = static_cast<T>(queries.positions[query + lane] - keys.first);
  for (int64_t key = 0; key < rows; ++key) {
    T *const p_at = tile.probabilities + key * kTile + query, *const ds_at = tile.dscores + key * kTile + query;
    V p = simd::exp(simd::load(p_at) - lse);
    V ds = p * (simd::load(ds_at) - delta);
    if (keys.masked) {
      p = newest >= static_cast<T>(key) ? p : V{};
      ds = newest >= static_cast<T>(key) ? ds : V{};
    }
    simd::store<T>(p_at, p);
    simd::store<T>(ds_at, ds);
  }
}

/// Adds to the totals of the prior's gradient what kColumns queries and `count` keys give; clipped: some bias was.
template <typename T>
void sum_prior_of_group(BackwardTile<T>& tile, int64_t group, const KeyTile& keys, int64_t count, bool clipped) {
  with_rank(tile.prior.rank, [&](auto rank) {
    if (clipped)
      sum_prior<rank, true>(tile.prior, tile.dscores, group, keys.first, count);
    else
      sum_prior<rank, false>(tile.prior, tile.dscores, group, keys.first, count);
  });
}

/// Scores and their gradients of the tile, and dq.
template <typename T>
void query_gradients(BackwardTile<T>& tile, const QueryTile& queries, const KeyTile& keys, int64_t head_size,
                     int64_t width) {
  for (int64_t group = 0; group < queries.count; group += kColumns<T>) {
    const int64_t group_end = std::min(group + kColumns<T>, queries.count);
    const int64_t rows = round_up(keys.seen_by(queries, group_end - 1), kRows);
    if (rows == 0) continue;
    const int64_t count = std::min(rows, keys.count);  // further rows have no factors, and nothing of them is kept
    const bool biased = tile.prior.rank > 0;
    const bool clipped = biased && put_prior_and_tell(tile.probabilities, tile.prior, group, keys.first, count);
    for (int64_t key = 0; key < rows; key += kRows) {
      (biased ? multiply<Into::kAdd, T>
              : multiply<Into::kOverwrite, T>)(tile.probabilities + key * kTile + group, kTile, tile.keys + key * width,
                                               width, 1, tile.queries_transposed + group, kTile, head_size, nullptr);
      multiply<Into::kOverwrite>(tile.dscores + key * kTile + group, kTile, tile.values + key * width, width, 1,
                                 tile.dout_transposed + group, kTile, head_size);
    }
    for (int64_t vector = 0; vector < kColumns<T>; vector += simd::kWidth<T>)
      score_gradients(tile, group + vector, rows, queries, keys);
    if (biased) sum_prior_of_group(tile, group, keys, count, clipped);
    for (int64_t query = group; query < group_end; query += kRows) {
      const int64_t depth = keys.seen_by(queries, std::min(query + kRows, group_end) - 1);
      for (int64_t d = 0; d < width; d += kColumns<T>)
        multiply<Into::kAdd>(tile.dq + query * width + d, width, tile.dscores + query, 1, kTile, tile.keys + d, width,
                             depth);
    }
  }
}

/// target[key][d] += sum over the queries that see the key of weights[key][query] * rows[query][d].
template <typename T>
void key_gradients(T* target, int64_t stride, const T* weights, const T* rows, const QueryTile& queries,
                   const KeyTile& keys, int64_t head_size, int64_t width) {
  alignas(64) T sums[kRows * kColumns<T>];
  for (int64_t key = 0; key < keys.count; key += kRows) {
    // From the first group that holds a query which sees the key; earlier groups have no scores here.
    const int64_t earliest =
        std::lower_bound(queries.positions, queries.positions + queries.count, keys.first + key) - queries.positions;
    const int64_t first = earliest / kColumns<T> * kColumns<T>;
    const int64_t key_rows = std::min(kRows, keys.count - key);
    for (int64_t d = 0; d < width; d += kColumns<T>) {
      multiply<Into::kOverwrite>(sums, kColumns<T>, weights + key * kTile + first, kTile, 1, rows + first * width + d,
                                 width, queries.count - first);
      const int64_t columns = std::min(kColumns<T>, head_size - d);
      for (int64_t r = 0; r < key_rows; ++r)
        for (int64_t c = 0; c < columns; ++c) target[(key + r) * stride + d + c] += sums[r * kColumns<T> + c];
    }
  }
}

/// Pointers to one query head and its key head within one row of the batch.
template <typename T>
struct HeadView {
  T *dq, *dk, *dv, *delta;
  const T *dout, *out, *lse, *q, *k, *v;
  RowQueries queries;
  AttentionPrior<T> prior;
  T* prior_rows;  ///< [query][rank + 2] or null
};

template <typename T>
[[gnu::noinline]] void load_queries(BackwardTile<T>& tile, const HeadView<T>& head, const QueryTile& queries,
                                    const AttentionShape& shape, int64_t width) {
  const int64_t padded = round_up(queries.count, kColumns<T>), head_size = shape.head_size;
  const T *const dout = head.dout + queries.first * shape.out_stride, *const out =
                                                                          head.out + queries.first * shape.out_stride;
  pack_rows(tile.queries, width, padded, head.q + queries.first * shape.q_stride, shape.q_stride, queries.count,
            head_size, static_cast<T>(shape.scale));
  pack_rows(tile.dout, width, padded, dout, shape.out_stride, queries.count, head_size, T(1));
  transpose(tile.queries_transposed, tile.queries, width, padded, head_size);
  transpose(tile.dout_transposed, tile.dout, width, padded, head_size);
  std::fill(tile.dq, tile.dq + padded * width, T(0));
  tile.prior.load(head.prior, queries);
  tile.prior.clear_totals();
  for (int64_t query = 0; query < padded; ++query) {
    tile.delta[query] = 0;
    tile.lse[query] = std::numeric_limits<T>::infinity();
    if (query >= queries.count) continue;
    const T lse = head.lse[queries.first + query];
    if (lse != -std::numeric_limits<T>::infinity()) tile.lse[query] = lse;
    tile.delta[query] = simd::transform_sum<T>(
        head_size, [](auto a, auto b) { return a * b; }, dout + query * shape.out_stride,
        out + query * shape.out_stride);
    head.delta[queries.first + query] = tile.delta[query];
  }
}

template <typename T>
void write_prior_rows(T* rows, const PriorTile<T>& prior, const QueryTile& queries) {
  const int64_t width = prior.rank + 2;
  for (int64_t query = 0; query < queries.count; ++query)
    for (int64_t r = 0; r < width; ++r) rows[(queries.first + query) * width + r] = prior.totals[r * kTile + query];
}

/// All gradients that one query head gives.
template <typename T>
void head_backward(BackwardTile<T>& tile, const HeadView<T>& head, const AttentionShape& shape) {
  const int64_t head_size = shape.head_size, width = round_up(head_size, kColumns<T>), stride = shape.kv_stride;
  for (int64_t query = 0; query < head.queries.count;) {
    const QueryTile queries = query_tile(head.queries, query, head.queries.count);
    load_queries(tile, head, queries, shape, width);
    for (int64_t key = queries.start; key <= queries.last_position(); key += kTile) {
      const KeyTile keys(queries, key);
      const int64_t key_rows = round_up(keys.count, kRows);
      pack_rows(tile.keys, width, key_rows, head.k + key * stride, stride, keys.count, head_size, T(1));
      pack_rows(tile.values, width, key_rows, head.v + key * stride, stride, keys.count, head_size, T(1));
      const int64_t next = key + kTile, next_rows = std::clamp<int64_t>(queries.last_position() - next + 1, 0, kTile);
      prefetch_rows(head.k + next * stride, stride, next_rows, head_size);
      prefetch_rows(head.v + next * stride, stride, next_rows, head_size);
      query_gradients(tile, queries, keys, head_size, width);
      key_gradients(head.dv + key * stride, stride, tile.probabilities, tile.dout, queries, keys, head_size, width);
      key_gradients(head.dk + key * stride, stride, tile.dscores, tile.queries, queries, keys, head_size, width);
    }
    for (int64_t row = 0; row < queries.count; ++row)
      for (int64_t d = 0; d < head_size; ++d)
        head.dq[(query + row) * shape.q_stride + d] = tile.dq[row * width + d] * static_cast<T>(shape.scale);
    if (head.prior_rows != nullptr) write_prior_rows(head.prior_rows, tile.prior, queries);
    query += queries.count;
  }
}

/// All arrays of one call.
template <typename T>
struct Arrays {
  T *dq, *dk, *dv, *delta;
  const T *dout, *out, *lse, *q, *k, *v;
  AttentionPrior<T> prior = {};
  AttentionPriorGradient<T> dprior = {};
};

/// queries_of(row) are the row's queries, `total` in all; lse and delta of (row, head) begin at lse_at(queries, row,
/// head).
template <typename T, typename QueriesOf, typename LseAt>
void head_gradients(const Arrays<T>& a, int64_t total, QueriesOf queries_of, LseAt lse_at,
                    const AttentionShape& shape) {
  const int64_t length = shape.key_length, head_size = shape.head_size, group = shape.query_heads / shape.key_heads;
  const int64_t units = shape.batch * shape.key_heads;
  // A unit owns a key head of a row with all its query heads, so nothing is shared and every sum has one order.
#pragma omp parallel for schedule(dynamic, 1) if (units > 1 && attention_work(shape, total) >= kParallelElements)
  for (int64_t unit = 0; unit < units; ++unit) {
    const int64_t row = unit / shape.key_heads, key_head = unit % shape.key_heads;
    const int64_t kv = row * length * shape.kv_stride + key_head * head_size;
    for (int64_t token = 0; token < length; ++token) {
      std::fill_n(a.dk + kv + token * shape.kv_stride, head_size, T(0));
      std::fill_n(a.dv + kv + token * shape.kv_stride, head_size, T(0));
    }
    const RowQueries queries = queries_of(row);
    BackwardTile<T> tile;
    for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
      const int64_t at_q = queries.first * shape.q_stride + head * head_size;
      const int64_t at_out = queries.first * shape.out_stride + head * head_size;
      const int64_t at_row = lse_at(queries, row, head);
      const HeadView<T> view{
          .dq = a.dq + at_q,
          .dk = a.dk + kv,
          .dv = a.dv + kv,
          .delta = a.delta + at_row,
          .dout = a.dout + at_out,
          .out = a.out + at_out,
          .lse = a.lse + at_row,
          .q = a.q + at_q,
          .k = a.k + kv,
          .v = a.v + kv,
          .queries = queries,
          .prior = a.prior,
          .prior_rows = a.dprior.sums == nullptr ? nullptr : a.dprior.rows + at_row * (a.prior.rank + 2)};
      head_backward(tile, view, shape);
    }
  }
}

/// Sums of the prior's gradient by position in the row, over rows of the batch and heads in rising order.
template <typename T, typename QueriesOf, typename LseAt>
void sum_prior_rows(const AttentionPriorGradient<T>& dprior, int64_t rank, int64_t total, QueriesOf queries_of,
                    LseAt lse_at, const AttentionShape& shape) {
  const int64_t width = rank + 2;
  parallel_ranges(shape.key_length, 4, total * shape.query_heads * width, [&](int64_t begin, int64_t end) {
    std::fill(dprior.sums + begin * width, dprior.sums + end * width, 0.0);
    for (int64_t row = 0; row < shape.batch; ++row) {
      const RowQueries queries = queries_of(row);
      const int64_t first = queries.first_from(begin), last = queries.first_from(end);
      for (int64_t head = 0; head < shape.query_heads; ++head) {
        const T* const from = dprior.rows + lse_at(queries, row, head) * width;
        for (int64_t query = first; query < last; ++query) {
          double* const to = dprior.sums + queries.position(query) * width;
          for (int64_t r = 0; r < width; ++r) to[r] += static_cast<double>(from[query * width + r]);
        }
      }
    }
  });
}

/// Everything that one call gives.
template <typename T, typename QueriesOf, typename LseAt>
void backward(const Arrays<T>& a, int64_t total, QueriesOf queries_of, LseAt lse_at, const AttentionShape& shape) {
  check_shape(shape, true);
  check_prior(shape, a.prior.rank, a.prior.length);
  head_gradients(a, total, queries_of, lse_at, shape);
  if (a.dprior.sums != nullptr) sum_prior_rows(a.dprior, a.prior.rank, total, queries_of, lse_at, shape);
}

}  // namespace

template <typename T>
void attention_backward(Cpu, T* dq, T* dk, T* dv, T* delta, const T* dout, const T* out, const T* lse, const T* q,
                        const T* k, const T* v, const int32_t* document_start, const AttentionShape& shape,
                        const AttentionPrior<T>& prior, const AttentionPriorGradient<T>& dprior) {
  backward<T>(
      {dq, dk, dv, delta, dout, out, lse, q, k, v, prior, dprior}, shape.batch * shape.query_length,
      [&](int64_t row) { return consecutive_queries(document_start, shape, row); },
      [&](const RowQueries&, int64_t row, int64_t head) {
        return (row * shape.query_heads + head) * shape.query_length;
      },
      shape);
}

template <typename T>
void attention_rows_backward(Cpu, T* dq, T* dk, T* dv, T* delta, const T* dout, const T* out, const T* lse, const T* q,
                             const T* k, const T* v, const int32_t* query_rows, int64_t count,
                             const int32_t* document_start, const AttentionShape& shape, const AttentionPrior<T>& prior,
                             const AttentionPriorGradient<T>& dprior) {
  backward<T>(
      {dq, dk, dv, delta, dout, out, lse, q, k, v, prior, dprior}, count,
      [&](int64_t row) { return chosen_queries(query_rows, count, document_start, shape, row); },
      [&](const RowQueries& queries, int64_t, int64_t head) { return head * count + queries.first; }, shape);
}

#define LONGHAUL_INSTANTIATE(T)                                                                                     \
  template void attention_backward(Cpu, T*, T*, T*, T*, const T*, const T*, const T*, const T*, const T*, const T*, \
                                   const int32_t*, const AttentionShape&, const AttentionPrior<T>&,                 \
                                   const AttentionPriorGradient<T>&);                                               \
  template void attention_rows_backward(Cpu, T*, T*, T*, T*, const T*, const T*, const T*, const T*, const T*,      \
                                        const T*, const int32_t*, int64_t, const int32_t*, const AttentionShape&,   \
                                        const AttentionPrior<T>&, const AttentionPriorGradient<T>&);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
