// The bytes of an input file, plain or gzip, in blocks of a chosen size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace longhaul {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills up to bytes.size(); 0 at the end. Error naming the file when it cannot be read or unpacked.
  virtual int64_t read(std::span<char> bytes) = 0;
};

/// A name that ends in .gz is unpacked (several members too); anything else is read as it is.
std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path);

}  // namespace longhaul
