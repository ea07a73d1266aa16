// Saves checkpoints: a snapshot at the step, file work on a thread of every rank, the commit by all ranks together at a
// later step. No communication happens off the main thread.
//
// Order of a save: directory step_N.partial.<session> with its owner mark -> every rank writes its HDF5 file and makes
// it durable -> all ranks agree -> rank 0 writes the manifest (size and checksum of every file), makes it durable,
// renames the directory to step_N (this is the commit), makes that durable -> `latest` -> retention.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/comm/agreement.h"
#include "core/comm/communicator.h"
#include "parallel/checkpoint_manifest.h"
#include "parallel/checkpoint_retention.h"
#include "parallel/run_directory.h"
#include "parallel/tensor_slice.h"

namespace longhaul {

enum class SaveErrorPolicy {
  stop,  ///< a failed save throws on every rank
  warn   ///< it is reported on every rank (SaveReport::problem) and the run goes on; the next save starts afresh
};

struct CheckpointOptions {
  RetentionOptions retention;
  SaveErrorPolicy on_error = SaveErrorPolicy::stop;
  bool background = true;  ///< false: begin() writes and commits before it returns
};

/// How a save ended; the same on every rank.
struct SaveReport {
  int64_t step = 0;
  bool committed = false;
  std::filesystem::path directory;
  int64_t bytes = 0;                 ///< of all ranks' files
  double seconds = 0;                ///< from begin() to the commit
  std::string problem;               ///< one line; when committed it concerns only `latest` or retention
  std::vector<std::string> removed;  ///< checkpoints deleted by retention
};

class CheckpointWriter {
 public:
  /// Collective. `group` and `run` must outlive the writer. user_error for options outside their ranges.
  CheckpointWriter(Communicator& group, const RunDirectory& run, CheckpointOptions options);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for the thread of this rank; an uncommitted save is left behind as a partial directory.
  ~CheckpointWriter();

  /// Collective. Copies the slices (tensor "kind/name" each; adjoining ones are merged) and starts to write; they may
  /// change as soon as this returns. A save still in flight is finished first. Reports of saves that ended inside this
  /// call are returned, oldest first. Every rank throws when the place is taken by foreign content (user_error),
  /// whatever the policy, and, under SaveErrorPolicy::stop, when a save failed on any rank.
  std::vector<SaveReport> begin(int64_t step, std::span<const TensorSlice> slices, const CheckpointExtras& extras);
  /// Collective and cheap; call once a step. Commits when every rank has written. Empty while nothing ended.
  std::optional<SaveReport> poll();
  /// Collective. Waits for the save in flight and commits it; empty when there is none.
  std::optional<SaveReport> finish();
  bool in_flight() const;

 private:
  struct Flight;
  SaveReport complete();
  SaveReport commit(const std::vector<std::string>& texts);
  SaveReport fail(const AgreedError& error);

  Communicator& group_;
  const RunDirectory& run_;
  CheckpointOptions options_;
  std::unique_ptr<Flight> flight_;
};

}  // namespace longhaul
