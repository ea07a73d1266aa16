// From text files to a finished dataset directory: read, clean, tokenize on several threads, split by document, write.
// The bytes written depend on the input, the tokenizer and the options below marked *, never on workers or block size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/dataset_writer.h"
#include "data/shards/manifest.h"
#include "data/text/record_reader.h"
#include "data/tokenizers/tokenizer.h"

namespace longhaul {

struct BuildProgress {
  int64_t bytes = 0, documents = 0, tokens = 0;  ///< read, kept, written so far
};

struct BuildOptions {
  std::vector<std::filesystem::path> inputs;  ///< * in this order
  /// * Of every input the split (index into kSplitNames) of all its documents; nothing, or no element: drawn by shares.
  std::vector<std::optional<int64_t>> input_splits = {};
  std::filesystem::path output;
  RecordOptions records;                    ///< * (but for block_bytes)
  SplitShares shares = {98, 1, 1};          ///< *
  uint64_t split_seed = 0;                  ///< *
  int64_t shard_tokens = int64_t{1} << 26;  ///< *
  int64_t workers = 1;
  std::function<void(const BuildProgress&)> progress;  ///< called now and then
};

struct BuildResult {
  TextCounts counts;
  Manifest manifest;
};

/// Errors: no document, a split that was asked for but got none, an output directory that may not be written
/// (WriterLock).
BuildResult build_dataset(const BuildOptions& options, const Tokenizer& tokenizer);

}  // namespace longhaul
