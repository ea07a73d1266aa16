// The few facts about Unicode the text side needs.
#pragma once

#include <cstdint>

namespace longhaul {

/// White_Space of the Unicode character database (what \s means in the split pattern of GPT-2).
constexpr bool is_white_space(int32_t code_point) {
  if ((code_point >= 9 && code_point <= 13) || (code_point >= 0x2000 && code_point <= 0x200A)) return true;
  switch (code_point) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return false;
  }
}

}  // namespace longhaul
