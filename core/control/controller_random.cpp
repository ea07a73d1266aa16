#include "core/control/controller_random.h"

#include <array>
#include <cmath>
#include <numbers>

#include "kernels/philox.h"

namespace longhaul {
namespace {

/// Two draws in [0, 1) of 53 bits each.
std::array<double, 2> uniform_pair(uint64_t seed, ControllerStream stream, int64_t update, int64_t player,
                                   int64_t index) {
  const kernels::RandomKey key{
      .seed = seed, .step = static_cast<uint64_t>(update), .layer = static_cast<uint32_t>(stream)};
  uint32_t bits[4];
  kernels::random_bits4(key, static_cast<uint64_t>(player), static_cast<uint64_t>(index), bits);
  const auto join = [](uint32_t high, uint32_t low) {
    return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
  };
  return {join(bits[0], bits[1]), join(bits[2], bits[3])};
}

}  // namespace

double ControllerRandom::uniform(int64_t index) const {
  return uniform_pair(seed_, stream_, update_, player_, index)[0];
}

double ControllerRandom::normal(int64_t index) const {
  const auto [radius, angle] = uniform_pair(seed_, stream_, update_, player_, index);
  return std::sqrt(-2 * std::log(1 - radius)) * std::cos(2 * std::numbers::pi * angle);  // 1 - radius is in (0, 1]
}

}  // namespace longhaul
