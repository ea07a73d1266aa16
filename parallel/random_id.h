// Random names for runs and lock holders. Never used in training, whose randomness is counter-based.
#pragma once

#include <cstddef>
#include <string>

namespace longhaul {

/// `bytes` (at most 32) random bytes of the kernel in hexadecimal.
std::string random_hex(size_t bytes);

}  // namespace longhaul
