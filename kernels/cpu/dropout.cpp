#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/pointwise.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kCounters = 16;  ///< Philox counters run side by side, so that the rounds vectorise

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
    uint32_t c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters];
    for (int64_t i = 0; i < kCounters; ++i) {
      const uint64_t index = first + static_cast<uint64_t>(i);
      c0[i] = static_cast<uint32_t>(index);
      c1[i] = static_cast<uint32_t>(index >> 32);
      c2[i] = fold[2];
      c3[i] = fold[3];
    }
    uint32_t key0 = fold[0], key1 = fold[1];
    for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u)
      for (int64_t i = 0; i < kCounters; ++i) {
        const uint64_t product0 = static_cast<uint64_t>(0xD2511F53u) * c0[i];
        const uint64_t product1 = static_cast<uint64_t>(0xCD9E8D57u) * c2[i];
        const uint32_t next0 = static_cast<uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
        const uint32_t next2 = static_cast<uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
        c1[i] = static_cast<uint32_t>(product1);
        c3[i] = static_cast<uint32_t>(product0);
        c0[i] = next0;
        c2[i] = next2;
      }
    for (int64_t i = 0; i < kCounters; ++i) {
      bits[4 * i] = c0[i];
      bits[4 * i + 1] = c1[i];
      bits[4 * i + 2] = c2[i];
      bits[4 * i + 3] = c3[i];
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
        for (int64_t e = from; e < to; ++e)
          out[e] = uniform_from_bits(bits[e - base]) >= threshold ? in[e] * keep_scale : T(0);
      }
    }
  });
}

template void dropout(Cpu, float*, const float*, double, RandomKey, const int64_t*, int64_t, int64_t, int64_t);
template void dropout(Cpu, double*, const double*, double, RandomKey, const int64_t*, int64_t, int64_t, int64_t);

}  // namespace longhaul::kernels
