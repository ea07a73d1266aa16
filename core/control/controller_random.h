// The random stream of a controller: counter-based, keyed by (seed, controller, update number), so that every rank and
// every resumed run draws alike.
#pragma once

#include <cstdint>

namespace longhaul {

/// Who draws; no two of them share a stream.
enum class ControllerStream : uint32_t {
  context_game = 0x47414D45,
  guardian = 0x47554152,
  guardian_start = 0x47535254
};

class ControllerRandom {
 public:
  /// `player` tells apart those who draw at the same update, such as data-parallel ranks.
  ControllerRandom(uint64_t seed, ControllerStream stream, int64_t update, int64_t player = 0)
      : seed_(seed), stream_(stream), update_(update), player_(player) {}

  double uniform(int64_t index) const;  ///< in [0, 1), multiples of 2^-53; a function of the index
  double normal(int64_t index) const;   ///< mean 0, deviation 1 (Box-Muller), of the bits uniform(index) is made of

 private:
  uint64_t seed_;
  ControllerStream stream_;
  int64_t update_, player_;
};

}  // namespace longhaul
