// A dataset directory or a single shard in a few lines for people (`longhaul inspect`).
#pragma once

#include <filesystem>
#include <string>

namespace longhaul {

/// True for a directory with a dataset manifest and for a file inside such a directory.
bool is_dataset_path(const std::filesystem::path& path);
/// Tokenizer, splits, shards and the beginning of each split (or of the one shard). Opened shards are verified first.
std::string describe_dataset(const std::filesystem::path& path);

}  // namespace longhaul
