// bfloat16 as a storage type: the upper half of a float. Arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

namespace longhaul {

struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  /// Round to nearest, ties to even; NaN stays NaN.
  explicit bf16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? static_cast<uint16_t>((word >> 16) | 0x40u)
                  : static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

}  // namespace longhaul
