// Numbered documents to a finished dataset directory: the lock, the tokenizer, a split drawn for each document, shards,
// and the manifest at the end.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/shards/manifest.h"
#include "data/shards/shard_writer.h"
#include "data/shards/writer_lock.h"
#include "data/tokenizers/tokenizer.h"

namespace longhaul {

inline constexpr std::array<const char*, 3> kSplitNames = {"train", "valid", "test"};
using SplitShares = std::array<double, 3>;  ///< of the documents; any scale; 0: no such split

/// Split (index into kSplitNames) of document number `document`, kept documents counted from 0 over all inputs: a
/// uniform Philox draw keyed by (seed, document) falls into one of the shares laid side by side.
int64_t split_of_document(uint64_t seed, int64_t document, const SplitShares& shares);
/// "98,1,1"; user_error unless three numbers >= 0 with a positive sum.
SplitShares parse_split_shares(const std::string& text);

struct DatasetWriterOptions {
  std::filesystem::path output;
  SplitShares shares = {98, 1, 1};
  uint64_t split_seed = 0;
  int64_t shard_tokens = int64_t{1} << 26;
  std::string notes;                ///< how the documents were made, one line
  std::array<bool, 3> masked = {};  ///< splits whose shards carry target masks
};

class DatasetWriter {
 public:
  /// Takes the directory (WriterLock) and stores the tokenizer.
  DatasetWriter(const DatasetWriterOptions& options, const Tokenizer& tokenizer);

  /// The next document, its end-of-text id included, with a target mask exactly when its split is masked.
  void add_document(std::span<const int32_t> ids, std::span<const uint8_t> target_mask = {});
  /// The same into a given split (index into kSplitNames).
  void add_document_to(int64_t split, std::span<const int32_t> ids, std::span<const uint8_t> target_mask = {});
  /// The manifest, written. user_error when a split that was asked for got no document.
  Manifest finish();

  /// Index into kSplitNames of the split that the next document goes to.
  int64_t next_split() const { return split_of_document(options_.split_seed, documents_, options_.shares); }
  int64_t documents() const { return documents_; }
  int64_t tokens() const;

 private:
  DatasetWriterOptions options_;
  WriterLock lock_;
  Manifest manifest_;
  std::vector<ShardWriter> writers_;  // one per split
  int64_t documents_ = 0;
};

}  // namespace longhaul
