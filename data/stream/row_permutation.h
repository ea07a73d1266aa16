// A random order of n rows in which any place is found in O(1): a Feistel network over the next even power of two,
// walked until it falls below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Rounds are Philox.
#pragma once

#include <cstdint>

namespace longhaul {

class RowPermutation {
 public:
  /// One order per (seed, dataset, epoch). count >= 1.
  RowPermutation(int64_t count, uint64_t seed, int64_t dataset, int64_t epoch);
  int64_t row_at(int64_t place) const;  ///< a bijection of [0, count)

 private:
  uint64_t encipher(uint64_t value) const;

  uint64_t count_;
  int half_bits_ = 1;
  uint32_t key_[2];
};

}  // namespace longhaul
