// 128-bit XXH3 checksums of files and memory (xxHash): shards, checkpoints, state hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace longhaul {

/// Streaming checksum.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(const std::string& text);
  std::string hex() const;  ///< 32 hexadecimal digits of everything so far

 private:
  void* state_;
};

struct FileDigest {
  int64_t bytes = 0;
  std::string checksum;  ///< hex()
  bool operator==(const FileDigest&) const = default;
};
FileDigest digest_file(const std::filesystem::path& path);

}  // namespace longhaul
