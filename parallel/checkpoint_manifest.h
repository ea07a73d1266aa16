// manifest.json of a checkpoint: what was saved, in which files, and where every element of every tensor lies. Written
// last; nothing in a checkpoint directory is trusted that the manifest does not vouch for. Format: docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/io/checksum.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace longhaul {

/// Elements [offset, offset + count) of a flattened tensor, stored in files[file] as dataset piece_dataset(name,
/// offset).
struct TensorPiece {
  int64_t file = 0;
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const TensorPiece&) const = default;
};

/// A whole tensor: its pieces, sorted by offset, cover every element exactly once.
struct TensorEntry {
  Shape shape;
  DType dtype = DType::f32;
  std::vector<TensorPiece> pieces;
  bool operator==(const TensorEntry&) const = default;
};

struct CheckpointFile {
  std::string name;  ///< within the checkpoint directory
  FileDigest digest;
  bool operator==(const CheckpointFile&) const = default;
};

/// The small values saved beside the tensors.
struct CheckpointExtras {
  std::string config_hash;
  std::string configuration;            ///< resolved configuration text
  int64_t data_position = 0;            ///< samples consumed by the whole job
  std::string controller_state = "{}";  ///< text, by convention JSON; kept to the letter
  std::string best_weights;  ///< text, by convention JSON: the result of the last validation; "" before. Not hashed.
  bool operator==(const CheckpointExtras&) const = default;
};

struct CheckpointManifest {
  static constexpr int64_t kFormatVersion = 1;
  static constexpr const char* kFileName = "manifest.json";

  std::string run_id;
  int64_t step = 0;
  CheckpointExtras extras;
  std::vector<CheckpointFile> files;
  std::map<std::string, TensorEntry> tensors;

  /// Text with a checksum of itself. internal_error when the pieces of a tensor overlap or leave a gap.
  std::string encode() const;
  /// Checks everything that can be checked without the files: checksum, version, canonical form, complete coverage.
  /// user_error naming `path` and the reason.
  static CheckpointManifest decode(const std::string& text, const std::filesystem::path& path);
  /// decode() of directory/manifest.json.
  static CheckpointManifest load(const std::filesystem::path& directory);

  int64_t tensor_bytes() const;  ///< of all elements
  bool operator==(const CheckpointManifest&) const = default;
};

/// "rank_00000_of_00002.h5".
std::string rank_file_name(int64_t rank, int64_t ranks);
/// "adam_m/wte.weight/at_65536": dataset of the piece that starts at element `offset`.
std::string piece_dataset(const std::string& tensor, int64_t offset);

}  // namespace longhaul
