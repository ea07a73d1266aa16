#include "core/io/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <vector>

#include "core/io/file.h"
#include "kernels/error.h"

namespace longhaul {

namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

XXH3_state_t* as_state(void* state) { return static_cast<XXH3_state_t*>(state); }

}  // namespace

Checksum::Checksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw system_error("checksum: out of memory for the hash state");
  XXH3_128bits_reset(as_state(state_));
}

Checksum::~Checksum() { XXH3_freeState(as_state(state_)); }

void Checksum::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (XXH3_128bits_update(as_state(state_), bytes.data(), bytes.size()) != XXH_OK) {
    throw internal_error("checksum: update of {} bytes failed", bytes.size());
  }
}

void Checksum::update(const std::string& text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

std::string Checksum::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(as_state(state_));
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

FileDigest digest_file(const std::filesystem::path& path) {
  File file = File::open_read(path);
  Checksum checksum;
  FileDigest digest;
  std::vector<std::byte> buffer(kReadBytes);
  while (const int64_t count = file.read(buffer)) {
    checksum.update(std::span(buffer).first(static_cast<size_t>(count)));
    digest.bytes += count;
  }
  digest.checksum = checksum.hex();
  return digest;
}

}  // namespace longhaul
