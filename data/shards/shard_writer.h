// Writes the shards of one split: each under a temporary name, made durable, then renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/io/hdf5_file.h"
#include "data/shards/manifest.h"

namespace longhaul {

class ShardWriter {
 public:
  /// Files DIRECTORY/SPLIT-00000.h5, ...; a shard is closed after the document that fills `shard_tokens`. With
  /// `masked` its shards carry target masks.
  ShardWriter(std::filesystem::path directory, std::string split, TokenizerRecord tokenizer, int64_t shard_tokens,
              bool masked = false);

  /// The ids of one document, its end-of-text id included; at least one. user_error for an id outside the vocabulary.
  /// `target_mask`: per id whether it may be a target; given exactly when the writer is masked.
  void add_document(std::span<const int32_t> ids, std::span<const uint8_t> target_mask = {});
  /// Closes the last shard and returns all of them, in order.
  std::vector<ShardEntry> finish();

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }

 private:
  std::filesystem::path temporary() const;
  void open();
  void flush();
  void close();

  std::filesystem::path directory_;
  std::string split_;
  TokenizerRecord tokenizer_;
  H5Type type_;
  int64_t shard_tokens_;
  bool masked_;
  std::optional<Hdf5File> file_;
  std::vector<int64_t> offsets_;
  std::vector<uint32_t> pending_;      // tokens not yet handed to HDF5
  std::vector<uint8_t> pending_mask_;  // parallel to pending_ when masked
  int64_t targets_ = 0;                // of the open shard
  std::vector<ShardEntry> shards_;
  int64_t tokens_ = 0, documents_ = 0;
};

}  // namespace longhaul
