#include "parallel/checkpoint_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/comm/agreement.h"
#include "core/io/hdf5_file.h"
#include "kernels/error.h"

namespace longhaul {

namespace fs = std::filesystem;

/// Which files are known to be good, and the open ones.
struct CheckpointReader::Files {
  static constexpr size_t kMostOpen = 64;
  std::vector<bool> verified;
  std::map<int64_t, Hdf5File> open;
};

CheckpointReader::CheckpointReader(fs::path directory, CheckpointManifest manifest)
    : directory_(std::move(directory)), manifest_(std::move(manifest)), files_(std::make_unique<Files>()) {
  files_->verified.resize(manifest_.files.size(), false);
}

CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

CheckpointReader CheckpointReader::open(const fs::path& directory) {
  return CheckpointReader(directory, CheckpointManifest::load(directory));
}

const TensorEntry& CheckpointReader::entry(const std::string& name) const {
  const auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end()) {
    throw user_error("{}: no tensor '{}' among its {}; was the checkpoint made for another model?", directory_.string(),
                     name, manifest_.tensors.size());
  }
  return found->second;
}

void CheckpointReader::verify_file(int64_t file) const {
  if (files_->verified.at(static_cast<size_t>(file))) return;
  const CheckpointFile& expected = manifest_.files[static_cast<size_t>(file)];
  const fs::path path = directory_ / expected.name;
  if (!fs::is_regular_file(path)) throw user_error("{}: missing, the manifest lists it", path.string());
  const auto bytes = static_cast<int64_t>(fs::file_size(path));
  if (bytes != expected.digest.bytes) {
    throw user_error("{}: {} bytes, the manifest says {}", path.string(), bytes, expected.digest.bytes);
  }
  const FileDigest found = digest_file(path);
  if (found != expected.digest) {
    throw user_error("{}: damaged: checksum {}, the manifest says {}", path.string(), found.checksum,
                     expected.digest.checksum);
  }
  files_->verified[static_cast<size_t>(file)] = true;
}

void CheckpointReader::verify_all_files() const {
  for (size_t file = 0; file < manifest_.files.size(); ++file) verify_file(static_cast<int64_t>(file));
}

void CheckpointReader::verify_together(Communicator& group) {
  agree(group, "verifying " + directory_.filename().string(), [&] {
    for (auto file = static_cast<size_t>(group.rank()); file < manifest_.files.size();
         file += static_cast<size_t>(group.size())) {
      verify_file(static_cast<int64_t>(file));
    }
  });
  std::fill(files_->verified.begin(), files_->verified.end(), true);
}

void CheckpointReader::read(const std::string& name, int64_t offset, int64_t count, DType dtype,
                            void* destination) const {
  const TensorEntry& tensor = entry(name);
  if (tensor.dtype != dtype) {
    throw user_error("{}: tensor '{}' holds {}, expected {}", directory_.string(), name, name_of(tensor.dtype),
                     name_of(dtype));
  }
  if (offset < 0 || count < 0 || offset > tensor.shape.count() - count) {
    throw user_error("{}: tensor '{}' {} has {} elements, [{}, {}) asked for", directory_.string(), name,
                     tensor.shape.text(), tensor.shape.count(), offset, offset + count);
  }
  // The first piece that ends after `offset`; pieces are sorted and complete.
  auto piece = std::partition_point(tensor.pieces.begin(), tensor.pieces.end(), [&](const TensorPiece& candidate) {
    return candidate.offset + candidate.count <= offset;
  });
  auto* bytes = static_cast<std::byte*>(destination);
  while (count > 0) {
    const int64_t skipped = offset - piece->offset;
    const int64_t taken = std::min(count, piece->count - skipped);
    verify_file(piece->file);
    auto opened = files_->open.find(piece->file);
    if (opened == files_->open.end()) {
      if (files_->open.size() >= Files::kMostOpen) files_->open.clear();
      const fs::path path = directory_ / manifest_.files[static_cast<size_t>(piece->file)].name;
      opened = files_->open.emplace(piece->file, Hdf5File::open_read(path)).first;
    }
    opened->second.read_range(piece_dataset(name, piece->offset), h5_type_of(dtype), skipped, taken, bytes);
    bytes += taken * size_of(dtype);
    offset += taken;
    count -= taken;
    ++piece;
  }
}

}  // namespace longhaul
