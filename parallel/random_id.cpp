#include "parallel/random_id.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "kernels/error.h"

namespace longhaul {

std::string random_hex(size_t bytes) {
  std::array<unsigned char, 32> buffer{};
  if (bytes > buffer.size()) throw internal_error("random_hex: {} bytes, at most {}", bytes, buffer.size());
  if (::getrandom(buffer.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    throw system_error("getrandom of {} bytes failed: {}", bytes, std::strerror(errno));
  }
  std::string text;
  for (size_t index = 0; index < bytes; ++index) text += fmt::format("{:02x}", buffer[index]);
  return text;
}

}  // namespace longhaul
