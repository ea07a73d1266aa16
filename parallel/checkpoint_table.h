// What one rank wrote: the table it hands to rank 0, which merges all tables into the manifest.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/checkpoint_manifest.h"

namespace longhaul {

struct RankPiece {
  std::string name;
  Shape shape;  ///< of the whole tensor
  DType dtype = DType::f32;
  int64_t offset = 0, count = 0;
};

struct RankTable {
  CheckpointFile file;
  std::vector<RankPiece> pieces;

  std::string encode() const;
  static RankTable decode(const std::string& text);
};

/// Fills files and tensors of `manifest` from the tables of all ranks. internal_error when ranks disagree about a
/// tensor.
void merge_tables(std::span<const RankTable> tables, CheckpointManifest& manifest);

}  // namespace longhaul
