// Event files that TensorBoard reads: protobuf events in TFRecord framing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/io/file.h"

namespace longhaul {

/// CRC-32C (Castagnoli), as RFC 3720 defines it.
uint32_t crc32c(std::string_view bytes);
/// One record: length, masked CRC of the length, bytes, masked CRC of the bytes (tensorflow/core/lib/io/record_writer).
std::string tfrecord(std::string_view bytes);

class TensorboardFile {
 public:
  /// Creates events.out.tfevents.* in `directory`. `first_step`: steps from this one on that earlier files hold are
  /// dropped by the reader (a resumed run repeats them).
  TensorboardFile(const std::filesystem::path& directory, int64_t first_step);

  void write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  File file_;
};

}  // namespace longhaul
