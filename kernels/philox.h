// Philox4x32-10 counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).
// Header only, usable in host and device code: a draw depends on (key, counter) alone, never on call order.
#pragma once

#include <array>
#include <cstdint>

#ifdef __CUDACC__
#define LONGHAUL_HOST_DEVICE __host__ __device__
#else
#define LONGHAUL_HOST_DEVICE
#endif

namespace longhaul::kernels {

/// What a random stream is keyed by. (seed, step, layer, sample) name the stream, the element index is the counter.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t layer = 0;  ///< layer or purpose; unique per use
};

/// Four independent 32-bit draws for (key, counter).
LONGHAUL_HOST_DEVICE inline void philox4x32(uint32_t counter[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(0xD2511F53u) * counter[0];
    const uint64_t product1 = static_cast<uint64_t>(0xCD9E8D57u) * counter[2];
    const uint32_t high0 = static_cast<uint32_t>(product0 >> 32), low0 = static_cast<uint32_t>(product0);
    const uint32_t high1 = static_cast<uint32_t>(product1 >> 32), low1 = static_cast<uint32_t>(product1);
    const uint32_t c1 = counter[1], c3 = counter[3];
    counter[0] = high1 ^ c1 ^ key0;
    counter[1] = low1;
    counter[2] = high0 ^ c3 ^ key1;
    counter[3] = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// Four draws of stream (key, sample) at position `index` (element index / 4).
LONGHAUL_HOST_DEVICE inline void random_bits4(const RandomKey& key, uint64_t sample, uint64_t index, uint32_t out[4]) {
  // The 64-bit seed is the Philox key; step, layer and sample are folded into a second seed by one Philox call, so that
  // the counter keeps 64 bits for the element index.
  uint32_t fold[4] = {static_cast<uint32_t>(key.step), static_cast<uint32_t>(key.step >> 32),
                      static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)};
  philox4x32(fold, static_cast<uint32_t>(key.seed) ^ key.layer, static_cast<uint32_t>(key.seed >> 32));
  out[0] = static_cast<uint32_t>(index);
  out[1] = static_cast<uint32_t>(index >> 32);
  out[2] = fold[2];
  out[3] = fold[3];
  philox4x32(out, fold[0], fold[1]);
}

/// Uniform in [0, 1) with 24 bits.
LONGHAUL_HOST_DEVICE inline float uniform_from_bits(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

}  // namespace longhaul::kernels
