#include <algorithm>
#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/pointwise.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kVectors = 4;  ///< vectors of Philox counters side by side, so that the rounds overlap
constexpr int64_t kCounters = kVectors * simd::kWideLanes;

/// The same draws as random_bits4(key, sample, first + i) for i < kCounters; the fold of (key, sample) is shared.
struct SampleStream {
  uint32_t fold[4];

  SampleStream(const RandomKey& key, uint64_t sample)
      : fold{static_cast<uint32_t>(key.step), static_cast<uint32_t>(key.step >> 32), static_cast<uint32_t>(sample),
             static_cast<uint32_t>(sample >> 32)} {
    philox4x32(fold, static_cast<uint32_t>(key.seed) ^ key.layer, static_cast<uint32_t>(key.seed >> 32));
  }

  /// bits[4 * i + j] = draw j of counter first + i.
  void draw(uint64_t first, uint32_t bits[4 * kCounters]) const {
    // One counter word per 64-bit lane; upper halves may hold anything, only lower halves are multiplied and kept.
    uint64_t indices[kCounters];
    for (int64_t i = 0; i < kCounters; ++i) indices[i] = first + static_cast<uint64_t>(i);
    simd::VecWide c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      std::memcpy(&c0[v], indices + v * simd::kWideLanes, sizeof(c0[v]));
      c1[v] = c0[v] >> 32;
      c2[v] = simd::VecWide{} + fold[2];
      c3[v] = simd::VecWide{} + fold[3];
    }
    const simd::VecWide multiplier0 = simd::VecWide{} + 0xD2511F53u, multiplier1 = simd::VecWide{} + 0xCD9E8D57u;
    uint32_t key0 = fold[0], key1 = fold[1];
    for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u)
      for (int64_t v = 0; v < kVectors; ++v) {
        const simd::VecWide product0 = simd::multiply_low_halves(c0[v], multiplier0);
        const simd::VecWide product1 = simd::multiply_low_halves(c2[v], multiplier1);
        c0[v] = (product1 >> 32) ^ c1[v] ^ key0;
        c2[v] = (product0 >> 32) ^ c3[v] ^ key1;
        c1[v] = product1;
        c3[v] = product0;
      }
    for (int64_t v = 0; v < kVectors; ++v) {
      const simd::VecWide low = (c0[v] & 0xFFFFFFFFu) | (c1[v] << 32), high = (c2[v] & 0xFFFFFFFFu) | (c3[v] << 32);
      for (int64_t lane = 0; lane < simd::kWideLanes; ++lane) {
        const uint64_t pair[2] = {low[lane], high[lane]};
        for (int64_t word = 0; word < 4; ++word)
          bits[4 * (v * simd::kWideLanes + lane) + word] = static_cast<uint32_t>(pair[word / 2] >> (word % 2 * 32));
      }
    }
  }
};

}  // namespace

template <typename T>
void dropout(Cpu, T* y, const T* x, double probability, RandomKey key, const int64_t* sample_ids, int64_t rows,
             int64_t rows_per_sample, int64_t columns) {
  const float threshold = static_cast<float>(probability);
  const T keep_scale = static_cast<T>(1 / (1 - probability));
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const SampleStream stream(key, static_cast<uint64_t>(sample_ids[row / rows_per_sample]));
      const int64_t first = (row % rows_per_sample) * columns;  // element number inside the sample
      const T* const in = x + row * columns - first;
      T* const out = y + row * columns - first;
      for (int64_t base = first / 4 * 4; base < first + columns; base += 4 * kCounters) {
        uint32_t bits[4 * kCounters];
        stream.draw(static_cast<uint64_t>(base) / 4, bits);
        const int64_t from = std::max(base, first), to = std::min(base + 4 * kCounters, first + columns);
        T kept[4 * kCounters];  // in two loops without branches, so that they vectorise
        for (int64_t i = 0; i < 4 * kCounters; ++i) kept[i] = T(uniform_from_bits(bits[i]) >= threshold);
        for (int64_t e = from; e < to; ++e) {
          const T scaled = in[e] * keep_scale;
          out[e] = kept[e - base] != 0 ? scaled : T(0);
        }
      }
    }
  });
}

template void dropout(Cpu, float*, const float*, double, RandomKey, const int64_t*, int64_t, int64_t, int64_t);
template void dropout(Cpu, double*, const double*, double, RandomKey, const int64_t*, int64_t, int64_t, int64_t);

}  // namespace longhaul::kernels
