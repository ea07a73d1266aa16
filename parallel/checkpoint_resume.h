// Which checkpoint a run continues from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "parallel/checkpoint_reader.h"
#include "parallel/run_directory.h"

namespace longhaul {

struct ResumeChoice {
  std::optional<CheckpointReader> checkpoint;  ///< verified; empty: start at step 0
  std::vector<std::string> skipped;            ///< one line each: what was passed over or set aside, and why
};

/// Collective; every rank gets the same choice or throws the same error. `request`:
///   "auto"  the highest recorded step that belongs to this run and whose files verify. Starts at 0 only when no
///   checkpoint
///           was ever committed here: when there are some and none is usable, or `latest` names one and none is left,
///           it is an error (user_error listing why).
///   "none"  step 0.
///   "<N>"   exactly that step; user_error naming the usable steps otherwise.
/// "none" and "<N>" begin a new branch of the run: checkpoints of higher steps are set aside (renamed, not deleted), so
/// that a later "auto" cannot return to the abandoned branch.
ResumeChoice choose_checkpoint(Communicator& group, const RunDirectory& run, const std::string& request);

/// `path` itself when it is a checkpoint directory, else the newest usable checkpoint of the run directory `path`.
/// user_error naming what was found otherwise. Not collective; files are not verified.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

}  // namespace longhaul
