// A copy of one rank's slices in host memory, and the HDF5 file made of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/checkpoint_table.h"
#include "parallel/checkpoint_writer.h"

namespace longhaul {

class CheckpointSnapshot {
 public:
  /// Copies; slices of one tensor that adjoin become one piece. internal_error for a slice outside its tensor or two
  /// slices of this rank that overlap, system_error when memory runs out.
  explicit CheckpointSnapshot(std::span<const TensorSlice> slices);

  const std::vector<RankPiece>& pieces() const { return pieces_; }
  /// Writes directory/name, makes it durable, and returns its table. Safe to call from another thread.
  RankTable write(const std::filesystem::path& directory, const std::string& name, const std::string& run_id,
                  int64_t step) const;

 private:
  std::vector<RankPiece> pieces_;  ///< by name and offset
  std::vector<int64_t> starts_;    ///< first byte of each piece in memory_
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace longhaul
