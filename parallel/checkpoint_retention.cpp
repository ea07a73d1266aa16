#include "parallel/checkpoint_retention.h"

#include <algorithm>
#include <functional>
#include <system_error>

#include "core/io/file.h"
#include "kernels/error.h"
#include "parallel/checkpoint_directory.h"

namespace longhaul {

namespace {

constexpr int64_t kMostKeptLast = 1'000'000;
constexpr int64_t kMostKeepEvery = 1'000'000'000;

void require_range(const char* key, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw user_error("checkpoint.{} = {}: expected a number from {} to {}", key, value, least, most);
}

/// Ends deletions of this run that a crash interrupted.
void empty_trash(const fs::path& checkpoints, const std::string& run_id) {
  std::vector<fs::path> trash;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    if (entry.path().filename().string().starts_with(".trash.")) trash.push_back(entry.path());
  }
  for (const fs::path& path : trash) {
    if (ownership_of(path, run_id) == Ownership::ours) remove_directory(path);
  }
}

}  // namespace

void RetentionOptions::validate() const {
  require_range("keep_last", keep_last, 1, kMostKeptLast);
  require_range("keep_every", keep_every, 0, kMostKeepEvery);
}

std::vector<int64_t> steps_to_remove(std::vector<int64_t> complete, int64_t committed,
                                     const RetentionOptions& options) {
  options.validate();
  std::sort(complete.begin(), complete.end(), std::greater<>());
  complete.erase(std::unique(complete.begin(), complete.end()), complete.end());
  std::vector<int64_t> removed;
  for (size_t index = static_cast<size_t>(options.keep_last); index < complete.size(); ++index) {
    const int64_t step = complete[index];
    const bool milestone = options.keep_every > 0 && step % options.keep_every == 0;
    if (step != committed && !milestone) removed.push_back(step);
  }
  return removed;
}

std::vector<std::string> apply_retention(const fs::path& checkpoints, const std::string& run_id, int64_t committed,
                                         const RetentionOptions& options) {
  const CheckpointListing listing = list_checkpoints(checkpoints, run_id);
  std::vector<int64_t> complete;
  for (const CheckpointCandidate& candidate : listing.candidates) {
    if (candidate.manifest) complete.push_back(candidate.manifest->step);
  }
  const std::vector<int64_t> steps = steps_to_remove(complete, committed, options);
  std::vector<std::string> removed;
  for (const CheckpointCandidate& candidate : listing.candidates) {
    if (!candidate.manifest) continue;
    const std::string name = candidate.path.filename();
    const bool replaced = name == step_directory_name(committed) + ".old";
    if (!replaced && std::find(steps.begin(), steps.end(), candidate.manifest->step) == steps.end()) continue;
    remove_directory(candidate.path);
    std::error_code no_router;
    if (!replaced) fs::remove(candidate.path.string() + kRouterSuffix, no_router);
    removed.push_back(name);
  }
  empty_trash(checkpoints, run_id);
  return removed;
}

}  // namespace longhaul
