#include "data/stream/row_permutation.h"

#include <utility>

#include "kernels/error.h"
#include "kernels/philox.h"

namespace longhaul {
namespace {
constexpr uint32_t kShuffleDraw = 0x53485546;  // purpose of the random stream
constexpr uint32_t kRounds = 6;
}  // namespace

RowPermutation::RowPermutation(int64_t count, uint64_t seed, int64_t dataset, int64_t epoch)
    : count_(static_cast<uint64_t>(count)) {
  if (count < 1) throw internal_error("permutation of {} rows", count);
  while (half_bits_ < 31 && (uint64_t{1} << (2 * half_bits_)) < count_) ++half_bits_;
  uint32_t draws[4];
  kernels::random_bits4({seed, static_cast<uint64_t>(epoch), kShuffleDraw}, static_cast<uint64_t>(dataset), 0, draws);
  key_[0] = draws[0];
  key_[1] = draws[1];
}

uint64_t RowPermutation::encipher(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    uint32_t counter[4] = {static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), round, 0};
    kernels::philox4x32(counter, key_[0], key_[1]);
    left ^= counter[0] & mask;
    std::swap(left, right);
  }
  return left << half_bits_ | right;
}

int64_t RowPermutation::row_at(int64_t place) const {
  uint64_t value = static_cast<uint64_t>(place);
  do {
    value = encipher(value);
  } while (value >= count_);
  return static_cast<int64_t>(value);
}

}  // namespace longhaul
