// manifest.json of a dataset directory: written last and durably, so that a directory with one is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/io/checksum.h"
#include "core/io/hdf5_file.h"

namespace longhaul {

struct ShardEntry {
  std::string name;   ///< file name inside the dataset directory
  std::string split;  ///< "train", "valid" or "test"
  FileDigest digest;
  int64_t documents = 0;
  int64_t tokens = 0;
  std::optional<int64_t> targets =
      {};  ///< tokens the shard's mask allows as targets; absent: no mask, every token is one
};

/// The tokenizer the ids were made with; its serialised form lies beside the shards.
struct TokenizerRecord {
  std::string name;
  int64_t vocab_size = 0;
  int32_t end_of_text = 0;
  std::string fingerprint;
  std::string file;  ///< serialise_tokenizer() bytes
  FileDigest digest;
};

struct Manifest {
  static constexpr const char* kFileName = "manifest.json";
  TokenizerRecord tokenizer;
  H5Type token_type = H5Type::u16;
  std::vector<ShardEntry> shards;  ///< in the order of their tokens, split by split
  std::string notes;               ///< how the text was treated, one line

  std::string to_json() const;   ///< carries a checksum of its own content
  std::string checksum() const;  ///< that checksum
  /// user_error naming `origin` when the text is damaged, foreign or of a later version.
  static Manifest from_json(const std::string& text, const std::string& origin);
};

/// Smallest unsigned type for ids in [0, vocab_size): u8, u16 or u32.
H5Type token_type_for(int64_t vocab_size);
/// Reads DIR/manifest.json. user_error says whether the directory is missing, unfinished (being written) or foreign.
Manifest read_manifest(const std::filesystem::path& directory);

}  // namespace longhaul
