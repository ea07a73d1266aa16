// Reads any range of any tensor of a checkpoint, whatever the layout that wrote it. No byte reaches the HDF5 library
// before the size and the checksum of its file agree with the manifest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "parallel/checkpoint_manifest.h"
#include "parallel/run_directory.h"

namespace longhaul {

class CheckpointReader {
 public:
  /// Loads the manifest. user_error when it is missing or damaged. Not collective.
  static CheckpointReader open(const std::filesystem::path& directory);
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  ~CheckpointReader();

  const CheckpointManifest& manifest() const { return manifest_; }
  const std::filesystem::path& directory() const { return directory_; }

  /// Elements [offset, offset + count) of the flattened tensor, on this rank alone; verifies each file it touches once.
  /// user_error for an unknown name, another dtype, a range outside the tensor, or a damaged file.
  void read(const std::string& name, int64_t offset, int64_t count, DType dtype, void* destination) const;
  bool contains(const std::string& name) const { return manifest_.tensors.count(name) > 0; }
  /// The entry; user_error naming the checkpoint when there is none.
  const TensorEntry& entry(const std::string& name) const;

  /// Checks size and checksum of one file, once per process. user_error naming file, found and expected.
  void verify_file(int64_t file) const;
  void verify_all_files() const;
  /// Collective. Every file is checked by one rank; all ranks throw the same error when any is bad, and all trust them
  /// after.
  void verify_together(Communicator& group);

 private:
  struct Files;
  CheckpointReader(std::filesystem::path directory, CheckpointManifest manifest);
  std::filesystem::path directory_;
  CheckpointManifest manifest_;
  std::unique_ptr<Files> files_;
};

}  // namespace longhaul
