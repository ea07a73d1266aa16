// Everything between the command line and the first step.
#include <map>

#include "core/comm/agreement.h"
#include "core/io/file.h"
#include "kernels/cpu_isa.h"
#include "kernels/error.h"
#include "launch/build_info.h"
#include "launch/metrics/throughput.h"
#include "launch/trained_model.h"
#include "launch/trainer.h"
#include "launch/training/threads.h"
#include "parallel/checkpoint_resume.h"
#include "parallel/tree_reduction.h"

namespace longhaul {
namespace {

constexpr double kStartAllowance = 3600;  ///< seconds for verifying and reading a large checkpoint

WatchdogOptions watchdog_options(World& world, double timeout, const std::atomic<const TrainingEngine*>& engine) {
  WatchdogOptions options;
  options.timeout_seconds = timeout;
  options.waiting_for_peers = [&world, &engine] {
    const TrainingEngine* watched = engine.load();
    return world.waiting_for_peers() || (watched != nullptr && watched->waiting_for_peers());
  };
  options.terminate = [&world](const std::string& message) { world.abort(message, 1); };
  return options;
}

SpikeGuard::Options guard_options(const OptimizerConfig& config) {
  SpikeGuard::Options options;
  options.factor = config.spike_factor;
  options.max_consecutive = config.max_skipped;
  return options;
}

CheckpointOptions checkpoint_options(const CheckpointConfig& config) {
  return {.retention = {config.keep_last, config.keep_every},
          .on_error = config.on_error == "continue" ? SaveErrorPolicy::warn : SaveErrorPolicy::stop,
          .background = config.background};
}

}  // namespace

LrSchedule schedule_of(const Configuration& configuration) {
  const ScheduleConfig& config = configuration.schedule;
  const int64_t rest = configuration.train.steps - config.warmup_steps - config.flat_steps;
  return {.peak = config.learning_rate,
          .warmup_steps = config.warmup_steps,
          .flat_steps = config.flat_steps,
          .decay_steps = config.decay_steps > 0 ? config.decay_steps : rest,
          .floor = config.floor};
}

Trainer::Trainer(World& world, ResolvedConfiguration configuration, const std::string& resume)
    : world_(world),
      group_(world.group()),
      configuration_(std::move(configuration)),
      config_(configuration_.values),
      watchdog_(group_, watchdog_options(world, config_.runtime.watchdog_seconds, watched_engine_)),
      guard_(guard_options(config_.optimizer)),
      schedule_(schedule_of(config_)),
      chaos_({.amplitude = config_.schedule.chaos_amplitude, .decay = config_.schedule.chaos_decay}) {
  const Watchdog::Phase phase(watchdog_, "start", kStartAllowance);
  start(resume);
}

void Trainer::start(const std::string& resume) {
  RunStart facts;
  facts.ranks = group_.size();
  facts.threads = set_threads(group_, config_.runtime.threads);
  agree(group_, "data", [&] { open_data(); });
  require_equal_ranks();
  run_ = std::make_unique<RunDirectory>(RunDirectory::acquire(group_, config_.train.run_dir));
  if (!run_->notice().empty()) facts.notes.push_back(run_->notice());
  ResumeChoice choice = choose_checkpoint(group_, *run_, resume);
  for (const std::string& skipped : choice.skipped) facts.notes.push_back("checkpoint passed over: " + skipped);
  agree(group_, "game", [&] { game_ = std::make_unique<LengthGame>(config_); });
  agree(group_, "model", [&] { make_engine(); });
  if (choice.checkpoint) {
    for (const std::string& changed : resume_from(*choice.checkpoint))
      facts.notes.push_back("changed on resume: " + changed);
    facts.notes.push_back(
        fmt::format("continuing from {} after step {}", choice.checkpoint->directory().string(), first_step_ - 1));
  } else if (!config_.checkpoint.init_from.empty()) {
    agree(group_, "initial weights", [&] { take_initial_weights(); });
    facts.notes.push_back("weights from " + config_.checkpoint.init_from);
  }
  writer_ = std::make_unique<CheckpointWriter>(group_, *run_, checkpoint_options(config_.checkpoint));
  facts.run_directory = run_->path().string();
  facts.run_id = run_->run_id();
  facts.first_step = first_step_;
  facts.parameters = engine_->model().parameters().parameter_count();
  facts.flops_per_token = training_flops_per_token(engine_->model(), config_.data.context);
  facts.peak_flops =
      config_.metrics.peak_gflops > 0 ? config_.metrics.peak_gflops * 1e9 * group_.size() : measured_peak_flops(group_);
  if (const int64_t empty = stream_->skipped_empty_shards(); empty > 0) {
    facts.notes.push_back(fmt::format("warning: {} shards hold no documents and are skipped", empty));
  }
  facts.notes.push_back(engine_->optimizer().description());
  facts.decay_list = engine_->optimizer().decay_list();
  agree(group_, "run directory", [&] {
    if (group_.is_root()) write_file_durably(run_->path() / kTokenizerFile, stream_->serialised_tokenizer());
    log_ = std::make_unique<TrainingLog>(group_, configuration_, facts);
  });
}

void Trainer::open_data() {
  Configuration& config = configuration_.values;
  if (config.data.datasets.empty()) {
    throw user_error("data.datasets is empty; name directories made by `longhaul tokenize`");
  }
  if (config.data.context > config.model.context_length) {
    throw user_error(
        "data.context is {} but model.context_length is {}; rows cannot be longer than the model's context",
        config.data.context, config.model.context_length);
  }
  stream_ = std::make_unique<TokenStream>(config.data);
  if (config.validation.every > 0) validation_ = std::make_unique<ValidationSet>(config.data);
  identity_ = {data_fingerprint(config.data), stream_->tokenizer_fingerprint()};
  if (config.model.vocab_size == 0) {
    config.model.vocab_size = stream_->vocab_size();
    configuration_.origin["model.vocab_size"] = "tokenizer of data.datasets";
  }
  if (config.model.vocab_size < stream_->vocab_size()) {
    throw user_error(
        "model.vocab_size is {} but the tokenizer of data.datasets has {} ids; set 0 or a size of at least that",
        config.model.vocab_size, stream_->vocab_size());
  }
  config.model = resolved(config.model);
  configuration_.refresh_text();
}

void Trainer::require_equal_ranks() {
  require_equal(group_, "configuration", configuration_.text);
  require_equal(group_, "program",
                {{"commit", std::string(build_info().commit)},
                 {"build type", std::string(build_info().build_type)},
                 {"CPU kernels", kernels::cpu_isa_name()}});
  require_equal(group_, "data", {{"data.datasets (contents)", identity_.data}, {"tokenizer", identity_.tokenizer}});
  agree(group_, "train.slots", [&] { slots_of_rank(config_.train.slots, group_.size(), group_.rank()); });
}

void Trainer::make_engine() {
  selection_ = std::make_unique<WeightSelection>(config_);
  prior_ = std::make_unique<PriorControl>(config_);
  engine_ = std::make_unique<TrainingEngine>(group_, config_);
  watched_engine_ = engine_.get();
}

std::vector<std::string> Trainer::resume_from(CheckpointReader& checkpoint) {
  std::vector<std::string> changed;
  ControllerState state;
  BestWeights best;
  agree(group_, "checkpoint", [&] {
    changed = check_resumable(configuration_, identity_, checkpoint);
    const std::string origin = checkpoint.directory().string();
    state = ControllerState::from_json(checkpoint.manifest().extras.controller_state, origin);
    best = BestWeights::from_json(checkpoint.manifest().extras.best_weights, origin);
    set_gate_states(engine_->model(), state.gates, origin);
    game_->set_state(state.game, origin);
    prior_->set_state(state.prior_control, origin);
  });
  load_optimizer(group_, engine_->optimizer(), checkpoint, state.updates);
  agree(group_, "checkpoint", [&] { restore_prior(engine_->model(), state.prior, checkpoint); });
  guard_.set_state(state.guard);
  selection_->restore(state.swa, best);
  last_saved_ = last_committed_ = checkpoint.manifest().step;
  first_step_ = checkpoint.manifest().step + 1;
  return changed;
}

void Trainer::take_initial_weights() {
  const TrainedModel source = load_trained_model(config_.checkpoint.init_from);
  const std::vector<Parameter>& ours = engine_->model().parameters().parameters();
  if (source.model->parameters().parameters().size() != ours.size()) {
    throw user_error("checkpoint.init_from {}: {} parameters, expected {}; its [model] differs",
                     config_.checkpoint.init_from, source.model->parameters().parameters().size(), ours.size());
  }
  for (const Parameter& parameter : ours) {
    const Parameter& other = source.model->parameters().find(parameter.name);
    if (other.shape() != parameter.shape()) {
      throw user_error("checkpoint.init_from {}: {} is {}, expected {}; its [model] differs",
                       config_.checkpoint.init_from, parameter.name, other.shape().text(), parameter.shape().text());
    }
    parameter.variable.value().copy_from(other.variable.value().to(parameter.variable.dtype()));
  }
  set_gate_states(engine_->model(), gate_states(*source.model), "checkpoint.init_from " + config_.checkpoint.init_from);
  copy_prior(engine_->model(), *source.model);
  engine_->optimizer().restart_from_values();
}

}  // namespace longhaul
