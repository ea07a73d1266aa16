// One verified shard file: token ids, where its documents begin and, if it says so, which tokens are targets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/io/hdf5_file.h"
#include "data/shards/manifest.h"

namespace longhaul {

/// Names inside a shard file (docs/formats.md).
struct ShardLayout {
  static constexpr int64_t kVersion = 1;
  static constexpr const char* kTokens = "/tokens";
  static constexpr const char* kOffsets = "/document_offsets";
  static constexpr const char* kTargetMask = "/target_mask";  ///< only in shards with a mask
  static constexpr int64_t kChunkTokens = 16384;
};

/// Stats the file: user_error unless it is a regular file of the recorded size that nobody is writing.
void check_shard_file(const std::filesystem::path& path, const ShardEntry& entry);
/// Reads all of it: user_error unless the checksum is the recorded one.
void check_shard_checksum(const std::filesystem::path& path, const ShardEntry& entry);

class Shard {
 public:
  /// Opens a file already checked against the manifest. user_error when what it says of itself differs from the
  /// manifest: vocabulary, tokenizer, split, sizes, an integer type too small for the vocabulary, offsets that do not
  /// rise, a target mask that is missing, unlisted or of another length than the tokens.
  Shard(const std::filesystem::path& path, const ShardEntry& entry, const TokenizerRecord& tokenizer);

  int64_t tokens() const { return offsets_.back(); }
  int64_t documents() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  std::span<const int64_t> offsets() const { return offsets_; }  ///< [documents + 1], from 0 to tokens()
  int64_t document_of(int64_t token) const;                      ///< the document that holds this token
  /// Ids [begin, begin + out.size()). user_error naming shard and offset for an id outside the vocabulary.
  void read(int64_t begin, std::span<int32_t> out) const;
  bool has_target_mask() const { return masked_; }
  /// 1 for each of these tokens that may be a target, 0 for the others; 1 throughout without a mask. user_error naming
  /// shard and offset for any other value.
  void read_target_mask(int64_t begin, std::span<uint8_t> out) const;

 private:
  std::string name_;
  int64_t vocab_size_;
  bool masked_;
  Hdf5File file_;
  std::vector<int64_t> offsets_;
};

}  // namespace longhaul
