// The prior of attention (kernels/attention.h) within a tile: formed in registers from the factors of its queries and
// keys, added to the scores, and its gradient summed over keys.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/cpu/attention_tile.h"

namespace longhaul::kernels::attention {

/// Factors of the queries of a tile. rank 0: there is no prior.
template <typename T>
struct PriorTile {
  int64_t rank = 0;
  const T* key = nullptr;                             ///< all keys: [position][rank + 1]
  T limit = 0;                                        ///< of the bias
  alignas(64) T query[(kMaxPriorRank + 1) * kTile];   ///< [rank + 1][query]
  alignas(64) T positions[kTile];                     ///< of the queries
  alignas(64) T totals[(kMaxPriorRank + 2) * kTile];  ///< backward: [rank + 2][query], summed over the keys so far

  void load(const AttentionPrior<T>& prior, const QueryTile& queries) {
    rank = prior.rank;
    key = prior.key;
    limit = static_cast<T>(prior.limit);
    if (rank == 0) return;
    for (int64_t i = 0; i < kTile; ++i) positions[i] = static_cast<T>(queries.positions[i]);
    for (int64_t r = 0; r <= rank; ++r)
      for (int64_t i = 0; i < kTile; ++i) query[r * kTile + i] = prior.query[queries.positions[i] * (rank + 1) + r];
  }
  void clear_totals() { std::fill_n(totals, (rank + 2) * kTile, T(0)); }
};

/// Calls f(rank as a constant type).
template <typename F>
auto with_rank(int64_t rank, F f) {
  static_assert(kMaxPriorRank == 8);
  switch (rank) {
    case 1:
      return f(std::integral_constant<int64_t, 1>());
    case 2:
      return f(std::integral_constant<int64_t, 2>());
    case 3:
      return f(std::integral_constant<int64_t, 3>());
    case 4:
      return f(std::integral_constant<int64_t, 4>());
    case 5:
      return f(std::integral_constant<int64_t, 5>());
    case 6:
      return f(std::integral_constant<int64_t, 6>());
    case 7:
      return f(std::integral_constant<int64_t, 7>());
    default:
      return f(std::integral_constant<int64_t, 8>());
  }
}

/// The factors of kCount vectors of queries in registers.
template <int64_t kRank, int64_t kCount, typename T>
struct PriorRegisters {
  using V = simd::Vec<T>;
  V factors[kRank][kCount], offsets[kCount], low, high;

  PriorRegisters(const PriorTile<T>& prior, int64_t query)
      : low(simd::broadcast(-prior.limit)), high(simd::broadcast(prior.limit)) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kCount; ++v) {
      const T* const at = prior.query + query + v * simd::kWidth<T>;
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRank; ++r) factors[r][v] = simd::load(at + r * kTile);
      offsets[v] = simd::load(at + kRank * kTile);
    }
  }
  /// bias[v] with one key, before clipping.
  void unclipped(V* bias, const T* key) const {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kCount; ++v) bias[v] = offsets[v] + key[kRank];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRank; ++r) {
      const V value = simd::broadcast(key[r]);
#pragma GCC unroll 8
      for (int64_t v = 0; v < kCount; ++v) bias[v] = simd::fma(factors[r][v], value, bias[v]);
    }
  }
  V clip(V bias) const { return simd::min(high, simd::max(low, bias)); }  // NaN stays NaN
};

template <int64_t kRank, int64_t kCount, bool kTell, typename T>
[[gnu::noinline]] bool put_vectors(T* scores, const PriorTile<T>& prior, int64_t query, int64_t first_key,
                                   int64_t keys) {
  using V = simd::Vec<T>;
  using Bits = typename simd::VectorOf<T>::bits;
  const PriorRegisters<kRank, kCount, T> registers(prior, query);
  Bits changed{};
  const T* key = prior.key + first_key * (kRank + 1);
  scores += query;
  for (int64_t i = 0; i < keys; ++i, key += kRank + 1, scores += kTile) {
    V bias[kCount];
    registers.unclipped(bias, key);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kCount; ++v) {
      const V kept = registers.clip(bias[v]);
      simd::store<T>(scores + v * simd::kWidth<T>, kept);
      if constexpr (kTell) changed |= reinterpret_cast<Bits>(kept) ^ reinterpret_cast<Bits>(bias[v]);
    }
  }
  const Bits none{};
  return kTell && std::memcmp(&changed, &none, sizeof(none)) != 0;
}

/// scores [key][kTile] = bias, for `count` <= kColumns queries from `query` on and `keys` keys from position
/// `first_key` on.
template <typename T>
void put_prior(T* scores, const PriorTile<T>& prior, int64_t query, int64_t count, int64_t first_key, int64_t keys) {
  with_rank(prior.rank, [&](auto rank) {
    if (count <= simd::kWidth<T>)  // decoding
      put_vectors<rank, 1, false>(scores, prior, query, first_key, keys);
    else
      put_vectors<rank, kVectors, false>(scores, prior, query, first_key, keys);
  });
}
/// The same for kColumns queries; was any bias clipped?
template <typename T>
bool put_prior_and_tell(T* scores, const PriorTile<T>& prior, int64_t query, int64_t first_key, int64_t keys) {
  return with_rank(prior.rank,
                   [&](auto rank) { return put_vectors<rank, kVectors, true>(scores, prior, query, first_key, keys); });
}

/// Adds to the totals of kColumns queries from `query` on what `keys` keys from position `first_key` on give; dscores
/// [key][kTile] are the gradients to the scores, 0 where a query does not see the key. kClipped: some bias was.
template <int64_t kRank, bool kClipped, typename T>
[[gnu::noinline]] void sum_prior(PriorTile<T>& prior, const T* dscores, int64_t query, int64_t first_key,
                                 int64_t keys) {
  using V = simd::Vec<T>;
  const PriorRegisters<kRank, kVectors, T> registers(prior, query);
  V by_key[kRank][kVectors] = {}, alone[kVectors] = {}, by_index[kVectors] = {}, index{};
  const T* key = prior.key + first_key * (kRank + 1);
  dscores += query;
  for (int64_t i = 0; i < keys; ++i, key += kRank + 1, dscores += kTile, index += T(1)) {
    V gradient[kVectors], bias[kVectors];
    if constexpr (kClipped) registers.unclipped(bias, key);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      gradient[v] = simd::load(dscores + v * simd::kWidth<T>);
      if constexpr (kClipped) gradient[v] = registers.clip(bias[v]) == bias[v] ? gradient[v] : V{};
      alone[v] += gradient[v];
      by_index[v] = simd::fma(gradient[v], index, by_index[v]);
    }
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRank; ++r) {
      const V value = simd::broadcast(key[r]);
#pragma GCC unroll 8
      for (int64_t v = 0; v < kVectors; ++v) by_key[r][v] = simd::fma(gradient[v], value, by_key[r][v]);
    }
  }
  for (int64_t v = 0; v < kVectors; ++v) {
    T* const at = prior.totals + query + v * simd::kWidth<T>;
    const auto add = [at](int64_t r, V sum) { simd::store<T>(at + r * kTile, simd::load(at + r * kTile) + sum); };
    for (int64_t r = 0; r < kRank; ++r) add(r, by_key[r][v]);
    add(kRank, alone[v]);
    const V distance =  // to the first key
        simd::load(prior.positions + query + v * simd::kWidth<T>) - static_cast<T>(first_key);
    add(kRank + 1, distance * alone[v] - by_index[v]);
  }
}

/// Throws where a prior does not fit the call; no prior fits always.
void check_prior(const AttentionShape& shape, int64_t rank, int64_t length);

}  // namespace longhaul::kernels::attention
