#include "parallel/state_hash.h"

#include <algorithm>
#include <cstddef>

#include "core/io/checksum.h"
#include "kernels/error.h"

namespace longhaul {

namespace {

constexpr int64_t kBufferBytes = int64_t{8} << 20;

std::string hash_tensor(const CheckpointReader& checkpoint, const std::string& name, const TensorEntry& entry) {
  Checksum checksum;
  checksum.update(fmt::format("{} {} {}\n", name, name_of(entry.dtype), entry.shape.text()));
  const int64_t element_bytes = size_of(entry.dtype), total = entry.shape.count();
  const int64_t piece = std::min(total, kBufferBytes / element_bytes);
  std::vector<std::byte> buffer(static_cast<size_t>(piece * element_bytes));
  for (int64_t begin = 0; begin < total; begin += piece) {
    const int64_t count = std::min(piece, total - begin);
    checkpoint.read(name, begin, count, entry.dtype, buffer.data());
    checksum.update(std::span(buffer).first(static_cast<size_t>(count * element_bytes)));
  }
  return checksum.hex();
}

}  // namespace

StateHash hash_state(const CheckpointReader& checkpoint) {
  const CheckpointManifest& manifest = checkpoint.manifest();
  checkpoint.verify_all_files();
  StateHash hash;
  Checksum total;
  for (const auto& [name, entry] : manifest.tensors) {
    hash.tensors.emplace_back(name, hash_tensor(checkpoint, name, entry));
    total.update(hash.tensors.back().second + " " + name + "\n");
  }
  total.update(fmt::format("step {}\ndata_position {}\ncontroller_state {}\n", manifest.step,
                           manifest.extras.data_position, manifest.extras.controller_state));
  hash.total = total.hex();
  return hash;
}

}  // namespace longhaul
