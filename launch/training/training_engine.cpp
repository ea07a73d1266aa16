#include "launch/training/training_engine.h"

#include <limits>
#include <vector>

#include "core/autograd/tape.h"
#include "core/comm/agreement.h"
#include "core/optim/clipping.h"
#include "launch/metrics/stopwatch.h"
#include "parallel/replica_check.h"

namespace longhaul {
namespace {

constexpr int64_t kReplicaCheckEvery = 10;  ///< steps; hashing the values costs well under 1 % of ten steps

}  // namespace

/// Loss sums by slot; each rank fills its own, so that assembling them is exact whatever the ranks.
struct TrainingEngine::SlotSums {
  std::vector<double> cross_entropy;
  std::vector<int64_t> valid_targets;
  GateStatistics gates;
  PriorStatistics priors;

  SlotSums(int64_t slots, const LanguageModel& model)
      : cross_entropy(static_cast<size_t>(slots)),
        valid_targets(static_cast<size_t>(slots)),
        gates(static_cast<int64_t>(model.gates().size())),
        priors(model.prior_memory(), slots) {}

  /// Assembles what was measured over the ranks. Collective.
  void gather(Communicator& group, StepResult& result) {
    group.assemble(cross_entropy);
    group.sum(valid_targets);
    result.gates = gates.measure(group);
    const std::vector<LayerMemberships> memberships = priors.gather(group);
    double total = 0;
    for (size_t slot = 0; slot < cross_entropy.size(); ++slot) {
      result.slots.push_back({cross_entropy[slot], valid_targets[slot]});
      if (!memberships.empty()) result.slots.back().memberships = memberships[slot];
      total += cross_entropy[slot];
      result.valid_targets += valid_targets[slot];
    }
    result.cross_entropy = result.valid_targets > 0 ? total / static_cast<double>(result.valid_targets)
                                                    : std::numeric_limits<double>::quiet_NaN();
  }
};

TrainingEngine::TrainingEngine(Communicator& group, const Configuration& configuration)
    : group_(group),
      seed_(configuration.train.seed),
      clip_norm_(configuration.optimizer.clip_norm),
      slots_(configuration.train.slots) {
  const TrainConfig& train = configuration.train;
  if (configuration.model.family == "amor" && configuration.model.gate.update == "before" && train.slots != 1) {
    throw user_error(
        "gate.update is before but train.slots is {}; the gates of one slot cannot wait for those of others: use "
        "after, "
        "or one slot",
        train.slots);
  }
  const OptimizerConfig& optimizer = configuration.optimizer;
  model_ = make_model(configuration.model, train.seed, dtype_from_name(train.dtype));
  layout_ = std::make_unique<ShardLayout>(model_->parameters(), group.size(), configuration.parallel.bucket_bytes);
  const GradientReducerOptions reduction{
      .slots = train.slots,
      .overlap = configuration.parallel.overlap,
      .order = configuration.parallel.unordered ? ReductionOrder::unordered : ReductionOrder::fixed_tree};
  reducer_ = std::make_unique<GradientReducer>(model_->parameters(), *layout_, group, reduction);
  const AdamWOptions adamw{optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.weight_decay};
  optimizer_ =
      std::make_unique<ShardedOptimizer>(model_->parameters(), *layout_, group,
                                         ShardedOptimizerOptions{adamw, train.ema_decay, configuration.swa.enabled});
}

void TrainingEngine::run_slot(int64_t step, int64_t slot, const std::function<Batch(int64_t slot)>& batch_of,
                              SlotSums& sums, PhaseSeconds& seconds) {
  Stopwatch watch;
  const Batch batch = batch_of(slot);
  seconds.data += watch.lap();
  reducer_->begin_slot(slot);
  Tape tape;
  GateRecord gates;
  PriorRecord priors;
  ForwardContext context{.tape = tape,
                         .batch = batch,
                         .training = true,
                         .seed = seed_,
                         .step = static_cast<uint64_t>(step),
                         .gates = &gates,
                         .priors = &priors};
  const LossSums loss = model_->loss(context);
  sums.gates.add(gates, batch);
  sums.priors.add(slot, priors, batch);
  seconds.forward += watch.lap();
  tape.backward(loss.objective);
  reducer_->end_slot();
  seconds.backward += watch.lap();
  sums.cross_entropy[static_cast<size_t>(slot)] = loss.cross_entropy;
  sums.valid_targets[static_cast<size_t>(slot)] = loss.valid_targets;
}

StepResult TrainingEngine::step(int64_t step, double learning_rate, SpikeGuard& guard,
                                const std::function<Batch(int64_t slot)>& batch_of, Watchdog& watchdog) {
  StepResult result;
  SlotSums sums(slots_, *model_);
  {
    const Watchdog::Phase phase(watchdog, "forward and backward");
    agree(group_, "forward and backward", [&] {
      for (int64_t slot = reducer_->slots().begin; slot < reducer_->slots().end; ++slot) {
        run_slot(step, slot, batch_of, sums, result.seconds);
        watchdog.beat(step);
      }
    });
  }
  Stopwatch watch;
  {
    const Watchdog::Phase phase(watchdog, "reduction of the gradients");
    sums.gather(group_, result);
    const Tensor& gradients = reducer_->finish();
    result.seconds.reduction = watch.lap();
    // Before the update, whose gather would overwrite a replica that has gone wrong.
    if (step % kReplicaCheckEvery == 0) check_replicas(group_, model_->parameters());
    decide_and_update(gradients, learning_rate, guard, result);
    if (result.decision == SpikeGuard::Decision::apply) {
      update_gates(sums.gates, result);
      if (model_->prior_memory()) sums.priors.update(*model_->prior_memory());
    }
  }
  watchdog.beat(step);
  return result;
}

void TrainingEngine::decide_and_update(const Tensor& gradients, double learning_rate, SpikeGuard& guard,
                                       StepResult& result) {
  Stopwatch watch;
  const double scale = result.valid_targets > 0 ? 1.0 / static_cast<double>(result.valid_targets) : 0;
  result.gradient_norm = optimizer_->gradient_norms(gradients, scale).total;
  result.decision = guard.decide(result.cross_entropy, result.gradient_norm);
  result.seconds.norm = watch.lap();
  if (result.decision != SpikeGuard::Decision::apply) return;
  optimizer_->update(gradients, learning_rate, scale * clip_factor(result.gradient_norm, clip_norm_));
  result.seconds.update = watch.lap();
}

void TrainingEngine::update_gates(const GateStatistics& statistics, const StepResult& result) {
  const bool before = model_->config().gate.update == "before";
  const std::span<EntropyGate> gates = model_->gates();
  for (size_t gate = 0; gate < gates.size(); ++gate) {
    if (before) {
      gates[gate].set_state(statistics.next_states()[gate]);
    } else {
      gates[gate].update(result.gates[gate].entropy);
    }
  }
}

}  // namespace longhaul
