// RUN/checkpoints: names, listing, and whose a directory is.
//   step_00000020/                      a committed checkpoint (step_00000020.old: the one it is just replacing)
//   step_00000020.partial.<session>/    being written; left over after a crash
//   step_00000020.aside.<n>/            damaged or overtaken; kept as evidence, never loaded, never deleted
//   step_00000020.router                routers fitted to that checkpoint; go with it
//   .trash.*/                           being deleted
//   latest                              name of the newest one: a hint only
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/checkpoint_manifest.h"

namespace longhaul {

inline constexpr const char* kOwnerFile = "owner";  ///< inside every checkpoint directory: the run id
inline constexpr const char* kLatestFile = "latest";
inline constexpr const char* kRouterSuffix = ".router";  ///< of the file beside a checkpoint

std::string step_directory_name(int64_t step);  ///< "step_00000020"

/// A directory that may hold a checkpoint: its name is step_<digits>, perhaps with ".old".
struct CheckpointCandidate {
  std::filesystem::path path;
  std::optional<CheckpointManifest> manifest;  ///< absent when it cannot be used
  std::string problem;  ///< then why: missing or damaged manifest, another run's, missing file, ...
};

struct CheckpointListing {
  std::vector<CheckpointCandidate> candidates;  ///< usable ones first, by recorded step, newest first
  std::vector<std::string> ignored;             ///< "step_best: not a checkpoint name", leftovers, ...
  std::optional<std::string> latest;            ///< content of the hint, when there is one
};

/// Reads every manifest and checks that it is of run `run_id` (any run when empty), of the step in the directory's
/// name, and that its files have the recorded sizes; contents are not read. A missing directory gives an empty listing.
CheckpointListing list_checkpoints(const std::filesystem::path& checkpoints, const std::string& run_id);

enum class Ownership { absent, ours, foreign };
/// Foreign: not a directory, marked by another run, or holding names that no checkpoint has.
Ownership ownership_of(const std::filesystem::path& directory, const std::string& run_id);

/// Renames `path` to "<name>.aside.<n>" beside it with the first free n; returns the new path.
std::filesystem::path set_aside(const std::filesystem::path& path);
/// Renames to .trash.* and then deletes, so that no reader meets half a directory.
void remove_directory(const std::filesystem::path& path);

}  // namespace longhaul
