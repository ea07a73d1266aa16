// Looks at every byte and every id of a dataset directory (`longhaul verify`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace longhaul {

struct VerificationReport {
  int64_t shards = 0, empty_shards = 0, documents = 0, tokens = 0, bytes = 0;  ///< good ones
  std::vector<std::string> problems;  ///< one line per bad file; empty: all is well
};

/// Sizes, checksums, attributes, offsets, the range of every id, an end-of-text id at the end of every document,
/// target masks, and the tokenizer. A bad file is reported and the others are still looked at. Only a directory that is
/// no dataset throws.
VerificationReport verify_dataset(const std::filesystem::path& directory,
                                  const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace longhaul
