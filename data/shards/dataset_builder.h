// From text files to a finished dataset directory: read, clean, tokenize on several threads, split by document, write.
// The bytes written depend on the input, the tokenizer and the options below marked *, never on workers or block size.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/shards/manifest.h"
#include "data/text/record_reader.h"
#include "data/tokenizers/tokenizer.h"

namespace longhaul {

inline constexpr std::array<const char*, 3> kSplitNames = {"train", "valid", "test"};
using SplitShares = std::array<double, 3>;  ///< of the documents; any scale; 0: no such split

struct BuildProgress {
  int64_t bytes = 0, documents = 0, tokens = 0;  ///< read, kept, written so far
};

struct BuildOptions {
  std::vector<std::filesystem::path> inputs;  ///< * in this order
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

/// Split (index into kSplitNames) of document number `document`, kept documents counted from 0 over all inputs: a
/// uniform Philox draw keyed by (seed, document) falls into one of the shares laid side by side.
int64_t split_of_document(uint64_t seed, int64_t document, const SplitShares& shares);
/// "98,1,1"; user_error unless three numbers >= 0 with a positive sum.
SplitShares parse_split_shares(const std::string& text);

/// Errors: no document, a split that was asked for but got none, an output directory that may not be written
/// (WriterLock).
BuildResult build_dataset(const BuildOptions& options, const Tokenizer& tokenizer);

}  // namespace longhaul
