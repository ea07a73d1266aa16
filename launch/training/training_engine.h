// One optimizer step over all ranks: model, gradient reduction and sharded optimizer put together. The trainer and
// `longhaul bench step` drive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/comm/communicator.h"
#include "core/control/spike_guard.h"
#include "core/models/language_model.h"
#include "core/tensor/batch.h"
#include "launch/config/configuration.h"
#include "launch/training/gate_statistics.h"
#include "launch/training/prior_statistics.h"
#include "parallel/gradient_reducer.h"
#include "parallel/shard_layout.h"
#include "parallel/sharded_optimizer.h"
#include "parallel/watchdog.h"

namespace longhaul {

/// Seconds of this rank, by phase of a step.
struct PhaseSeconds {
  double data = 0;  ///< rows read and packed
  double forward = 0;
  double backward = 0;
  double reduction = 0;  ///< of the gradients, as far as backward did not hide it; waiting for slower ranks
  double norm = 0;       ///< gradient norm and the decision to skip
  double update = 0;     ///< clipping, AdamW, gather of the parameters
  double total() const { return data + forward + backward + reduction + norm + update; }
};

/// Of one slot, over its valid targets.
struct SlotLoss {
  double cross_entropy = 0;  ///< sum
  int64_t valid_targets = 0;
  LayerMemberships memberships = {};  ///< of the tokens with a target
};

/// Equal on all ranks, but for the seconds.
struct StepResult {
  double cross_entropy = 0;  ///< mean over the valid targets of the global batch; NaN when there is none
  int64_t valid_targets = 0;
  double gradient_norm = 0;  ///< before clipping
  SpikeGuard::Decision decision = SpikeGuard::Decision::apply;
  std::vector<SlotLoss> slots;         ///< of all ranks
  std::vector<GateMeasurement> gates;  ///< by entropy gate; empty for models without
  PhaseSeconds seconds;
};

class TrainingEngine {
 public:
  /// `configuration.model` is resolved (vocabulary known). Parameters start from train.seed. user_error when the gates
  /// are to be updated by a slot (gate.update = before) but a step has several.
  TrainingEngine(Communicator& group, const Configuration& configuration);
  TrainingEngine(const TrainingEngine&) = delete;
  TrainingEngine& operator=(const TrainingEngine&) = delete;

  LanguageModel& model() { return *model_; }
  ShardedOptimizer& optimizer() { return *optimizer_; }
  /// Does the main thread wait for gradients of other ranks? From any thread.
  bool waiting_for_peers() const { return reducer_->waiting(); }
  const ReductionTimeline& timeline() const { return reducer_->timeline(); }

  /// Runs step number `step` (from 1). `batch_of` gives the batch of a global slot number. Collective; a failure on one
  /// rank is an AgreedError on all.
  StepResult step(int64_t step, double learning_rate, SpikeGuard& guard,
                  const std::function<Batch(int64_t slot)>& batch_of, Watchdog& watchdog);

 private:
  struct SlotSums;
  void run_slot(int64_t step, int64_t slot, const std::function<Batch(int64_t slot)>& batch_of, SlotSums& sums,
                PhaseSeconds& seconds);
  void decide_and_update(const Tensor& gradients, double learning_rate, SpikeGuard& guard, StepResult& result);
  /// Takes the measurements of an applied step into the gates.
  void update_gates(const GateStatistics& statistics, const StepResult& result);

  Communicator& group_;
  uint64_t seed_;
  double clip_norm_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<ShardLayout> layout_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  int64_t slots_;
};

}  // namespace longhaul
