// The training loop: one step after the other, with validation, checkpoints and metrics between them. See
// architecture.md, "Data flow of one step".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/control/chaos_warm_in.h"
#include "core/control/lr_schedule.h"
#include "core/control/spike_guard.h"
#include "data/stream/token_stream.h"
#include "launch/config/load_configuration.h"
#include "launch/metrics/stopwatch.h"
#include "launch/training/length_game.h"
#include "launch/training/prior_control.h"
#include "launch/training/stop_signal.h"
#include "launch/training/training_engine.h"
#include "launch/training/training_log.h"
#include "launch/training/training_state.h"
#include "launch/training/weight_selection.h"
#include "parallel/checkpoint_writer.h"
#include "parallel/mpi/mpi_runtime.h"
#include "parallel/run_directory.h"
#include "parallel/watchdog.h"

namespace longhaul {

/// The schedule a configuration describes: decay_steps 0 stands for the rest of the run.
LrSchedule schedule_of(const Configuration& configuration);

class Trainer {
 public:
  /// Everything up to the first step: data, agreement of the ranks, run directory, model, the checkpoint to continue
  /// from
  /// (`resume`: auto | none | STEP). Collective.
  Trainer(World& world, ResolvedConfiguration configuration, const std::string& resume);
  ~Trainer();

  /// Trains to train.steps, or until a signal or train.stop_after. Returns the exit code. Collective.
  int run();

 private:
  // trainer_start.cpp: everything up to the first step.
  void start(const std::string& resume);
  void open_data();
  void require_equal_ranks();
  void make_engine();
  std::vector<std::string> resume_from(CheckpointReader& checkpoint);
  void take_initial_weights();

  // trainer.cpp: the loop.
  StepResult train_step(int64_t step, double learning_rate);
  bool should_stop(int64_t step);
  /// Every validation.every steps, and after the last one.
  bool validation_due(int64_t step) const;
  void validate(int64_t step);
  void save(int64_t step);
  void saved(const SaveReport& report);
  int finish(int64_t step, bool stopped);

  World& world_;
  Communicator& group_;
  ResolvedConfiguration configuration_;
  const Configuration& config_;
  StopSignal stop_;
  std::atomic<const TrainingEngine*> watched_engine_ = nullptr;  ///< asked by the watchdog's thread
  std::unique_ptr<TokenStream> stream_;
  std::unique_ptr<ValidationSet> validation_;
  DataIdentity identity_;
  std::unique_ptr<RunDirectory> run_;
  std::unique_ptr<TrainingEngine> engine_;
  std::unique_ptr<WeightSelection> selection_;
  Watchdog watchdog_;  ///< ends before the engine that it asks
  SpikeGuard guard_;
  LrSchedule schedule_;
  ChaosWarmIn chaos_;
  std::unique_ptr<LengthGame> game_;
  std::unique_ptr<PriorControl> prior_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::unique_ptr<TrainingLog> log_;
  int64_t first_step_ = 1;
  int64_t last_saved_ = -1;      ///< step of the newest checkpoint begun (or resumed from)
  int64_t last_committed_ = -1;  ///< step of the newest complete checkpoint
};

}  // namespace longhaul
