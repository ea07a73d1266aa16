// Which checkpoints stay. The newest complete one is never removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longhaul {

struct RetentionOptions {
  int64_t keep_last = 2;   ///< complete checkpoints kept, by recorded step; in [1, 1'000'000]
  int64_t keep_every = 0;  ///< checkpoints of steps divisible by this stay for ever; 0: none; in [0, 1'000'000'000]
  /// user_error "checkpoint.keep_last = -1: expected ..." for values outside these ranges.
  void validate() const;
};

/// Steps to delete among `complete` (any order): neither among the keep_last highest, nor divisible by keep_every, nor
/// `committed`, the one just written.
std::vector<int64_t> steps_to_remove(std::vector<int64_t> complete, int64_t committed, const RetentionOptions& options);

/// Deletes what steps_to_remove names among the complete checkpoints of this run, and leftovers of its earlier
/// deletions. Damaged, foreign and set-aside directories stay. Returns the names deleted. Call from one process, after
/// a commit.
std::vector<std::string> apply_retention(const std::filesystem::path& checkpoints, const std::string& run_id,
                                         int64_t committed, const RetentionOptions& options);

}  // namespace longhaul
