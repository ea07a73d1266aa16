#include "launch/study/ablation_training.h"

#include <algorithm>
#include <cstdio>

#include "core/comm/agreement.h"
#include "core/io/file.h"
#include "kernels/error.h"
#include "launch/exit_codes.h"
#include "launch/trainer.h"
#include "launch/training/training_log.h"
#include "parallel/checkpoint_directory.h"

namespace longhaul {
namespace {

/// Keys that change neither what is trained nor what the study reads.
bool is_free(const std::string& key) {
  static constexpr const char* kFree[] = {"train.stop_after", "checkpoint.", "runtime.",        "parallel.",
                                          "metrics.",         "data.verify", "data.open_shards"};
  return std::any_of(std::begin(kFree), std::end(kFree), [&](const char* start) { return key.starts_with(start); });
}

void require_same_settings(const AblationRun& run) {
  const std::filesystem::path file = run.directory / kConfigurationFile;
  const auto text = read_file_if_present(file);
  if (!text) return;
  const ResolvedConfiguration theirs = parse_configuration(*text, file.string());
  for (const ConfigurationDifference& difference : differences(run.configuration.text, theirs.text)) {
    // The directory may have been moved.
    if (difference.key == "train.run_dir" || is_free(difference.key)) continue;
    throw user_error("{}: this run has {} = {}, the study asks for {}; remove the directory or take another --out",
                     run.directory.string(), difference.key, difference.theirs, difference.ours);
  }
}

/// Rank 0 looks: all ranks must do the same.
bool has_ended_for_all(Communicator& group, const AblationRun& run) {
  int64_t ended = 0;
  agree(group, "study", [&] {
    if (group.is_root()) ended = has_ended(run);
  });
  group.max({&ended, 1});
  return ended != 0;
}

bool is_stopped(Communicator& group, const StopSignal& stop) {
  int64_t signal = stop.number();
  group.max({&signal, 1});
  return signal != 0;
}

void say(Communicator& group, const std::string& line) {
  if (!group.is_root()) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace

bool has_ended(const AblationRun& run) {
  require_same_settings(run);
  if (!RunDirectory::is_run_directory(run.directory)) return false;
  const RunDirectory directory = RunDirectory::open_unlocked(run.directory);
  const CheckpointListing listing = list_checkpoints(directory.checkpoints(), directory.run_id());
  if (listing.candidates.empty()) return false;
  const auto& newest = listing.candidates.front().manifest;
  return newest && newest->step == run.configuration.values.train.steps;
}

int train_ablation(World& world, const Ablation& ablation) {
  Communicator& group = world.group();
  const StopSignal stop;  // of a signal between two runs
  size_t number = 0;
  for (const AblationRun& run : ablation.runs) {
    ++number;
    const bool ended = has_ended_for_all(group, run);
    say(group, fmt::format("== run {} of {}: {}, seed {}{}", number, ablation.runs.size(),
                           ablation_rungs()[run.rung].name, run.seed, ended ? ": has ended before" : ""));
    if (ended) continue;
    if (is_stopped(group, stop)) return kExitStoppedEarly;
    Trainer trainer(world, run.configuration, "auto");
    const int code = trainer.run();
    if (code != kExitOk) return code;
  }
  return kExitOk;
}

}  // namespace longhaul
