#include "launch/trainer.h"

#include <map>

#include "core/comm/agreement.h"
#include "core/tensor/split_rows.h"
#include "kernels/error.h"
#include "launch/exit_codes.h"
#include "launch/metrics/stopwatch.h"
#include "launch/training/validation.h"

namespace longhaul {

constexpr const char* kNewestNote = "the newest complete one is kept; free space and start again";

Trainer::~Trainer() = default;

int Trainer::run() {
  int64_t step = first_step_ - 1;
  bool stopped = false;
  while (step < config_.train.steps && !(stopped = should_stop(step))) {
    ++step;
    const Stopwatch watch;
    const double chaos = chaos_.factor(step), learning_rate = schedule_.rate(step) * chaos;
    prior_->prepare(step, chaos, engine_->model());
    const StepResult result = train_step(step, learning_rate);
    log_->step(step, learning_rate, result, watch.seconds(), engine_->timeline());
    if (const auto report = game_->observe(step, result, group_)) log_->game(step, *report);
    prior_->observe(result);
    if (validation_due(step)) validate(step);
    if (config_.checkpoint.every > 0 && step % config_.checkpoint.every == 0) save(step);
    if (const auto report = writer_->poll()) saved(*report);
  }
  return finish(step, stopped);
}

StepResult Trainer::train_step(int64_t step, double learning_rate) {
  const int64_t rows = config_.train.rows_per_slot;
  const auto batch_of = [&](int64_t slot) {
    // The position in the data is a number of samples, whatever the ranks.
    return game_->split(stream_->rows(((step - 1) * config_.train.slots + slot) * rows, rows), step, slot);
  };
  return engine_->step(step, learning_rate, guard_, batch_of, watchdog_);
}

bool Trainer::should_stop(int64_t step) {
  int64_t signal = stop_.number();
  group_.max({&signal, 1});  // a signal that reached one rank stops all of them after the same step
  if (signal != 0) log_->line(fmt::format("signal {}: stopping after step {}", signal, step));
  const bool planned = config_.train.stop_after > 0 && step >= config_.train.stop_after;
  return signal != 0 || planned;
}

bool Trainer::validation_due(int64_t step) const {
  const int64_t every = config_.validation.every;
  return every > 0 && (step % every == 0 || step == config_.train.steps);
}

void Trainer::validate(int64_t step) {
  const Watchdog::Phase phase(watchdog_, "validation");
  const int64_t rows = validation_rows(validation_->rows_total(), config_.data.context, config_.validation.max_tokens);
  const auto score_at = [&](const std::string& weights, int64_t length) {
    const Stopwatch watch;
    const ValidationScore result = score_rows(
        group_, engine_->model(), rows, config_.train.rows_per_slot,
        [&](int64_t first, int64_t count) { return split_rows(validation_->rows(first, count), length); },
        [&](int64_t) { watchdog_.beat(step); });
    log_->validation(step, weights, length, result, watch.seconds());
    return result.mean();
  };
  // Weights are compared by their score over whole rows, the last.
  std::map<std::string, double> scores;
  const auto score = [&](const std::string& weights) {
    for (const int64_t length : game_->lengths()) scores[weights] = score_at(weights, length);
    return scores[weights];
  };
  const std::string data = fmt::format("{}, {} rows", identity_.data, rows);
  const auto decision = selection_->validate(step, data, engine_->optimizer(), score);
  if (decision) log_->selective_average(step, *decision);
  log_->best_weights(selection_->best());
  if (const auto report = prior_->validate(data, scores["raw"], engine_->model())) log_->prior(step, *report);
}

void Trainer::save(int64_t step) {
  const Watchdog::Phase phase(watchdog_, "checkpoint", config_.runtime.watchdog_seconds);
  CheckpointExtras extras;
  extras.config_hash = configuration_.hash();
  extras.configuration = configuration_.ini();
  extras.data_position = step * config_.train.slots * config_.train.rows_per_slot;
  extras.controller_state = ControllerState{.updates = engine_->optimizer().updates(),
                                            .guard = guard_.state(),
                                            .identity = identity_,
                                            .gates = gate_states(engine_->model()),
                                            .swa = selection_->state(),
                                            .game = game_->state(),
                                            .prior = prior_state(engine_->model()),
                                            .prior_control = prior_->state()}
                                .to_json();
  extras.best_weights = selection_->best().to_json();
  std::vector<TensorSlice> slices = engine_->optimizer().state();
  if (group_.is_root()) {
    for (TensorSlice& slice : prior_slices(engine_->model())) slices.push_back(std::move(slice));
  }
  for (const SaveReport& report : writer_->begin(step, slices, extras)) saved(report);
  last_saved_ = step;
}

void Trainer::saved(const SaveReport& report) {
  if (report.committed) last_committed_ = report.step;
  log_->save(report);
}

int Trainer::finish(int64_t step, bool stopped) {
  if (last_saved_ != step) save(step);
  if (const auto report = writer_->finish()) saved(*report);
  if (last_committed_ != step) {
    // checkpoint.on_error = continue lets training go on, but nobody may believe that the end was saved.
    throw AgreedError(Fault::kSystem,
                      fmt::format("the checkpoint of step {} could not be written; {}", step, kNewestNote), 0);
  }
  log_->line(stopped ? fmt::format("stopped after step {} of {}; start the same command again to go on", step,
                                   config_.train.steps)
                     : fmt::format("done: {} steps; run directory {}", step, run_->path().string()));
  return stopped ? kExitStoppedEarly : kExitOk;
}

}  // namespace longhaul
