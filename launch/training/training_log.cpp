#include "launch/training/training_log.h"

#include <cstdio>

#include "core/io/file.h"
#include "kernels/cpu_isa.h"
#include "launch/build_info.h"
#include "launch/metrics/progress.h"

namespace longhaul {
namespace {

std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.2f}G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.1f}M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

int64_t tokens_per_step(const Configuration& config) {
  return config.train.slots * config.train.rows_per_slot * config.data.context;
}

std::string header(const ResolvedConfiguration& configuration, const RunStart& start) {
  const Configuration& config = configuration.values;
  std::string text;
  for (const auto& [key, value] : configuration.text) {
    text += fmt::format("  {:<30} {:<28} {}\n", key, value.empty() ? "(empty)" : value, configuration.origin.at(key));
  }
  text += fmt::format("longhaul {} ({}), CPU kernels {}\n", build_info().version, build_info().commit,
                      kernels::cpu_isa_name());
  text += fmt::format("run {} (id {}), {} rank(s) x {} thread(s)\n", start.run_directory, start.run_id, start.ranks,
                      start.threads);
  text += fmt::format(
      "model {}: {} parameters, {} FLOPs per token; batch of {} slots x {} rows x {} tokens = {} tokens\n",
      config.model.family, count_text(static_cast<double>(start.parameters)), count_text(start.flops_per_token),
      config.train.slots, config.train.rows_per_slot, config.data.context, tokens_per_step(config));
  text += fmt::format(
      "100 % MFU is {} FLOP/s ({})\n", count_text(start.peak_flops),
      config.metrics.peak_gflops > 0 ? "metrics.peak_gflops" : "measured: matrix products of all ranks at once");
  text += "weight decay by parameter:\n" + start.decay_list;
  if (text.back() != '\n') text += '\n';
  for (const std::string& note : start.notes) text += note + "\n";
  return text;
}

}  // namespace

std::string console_line(int64_t step, int64_t steps, double learning_rate, const StepResult& result,
                         const Throughput& throughput) {
  std::string text = fmt::format("step {}/{}  loss {:.4f}  norm {:.3f}  lr {:.3e}  {} tok/s  MFU {:.1f} %  ETA {}",
                                 step, steps, result.cross_entropy, result.gradient_norm, learning_rate,
                                 count_text(throughput.tokens_per_second()), 100 * throughput.utilisation(),
                                 duration_text(throughput.seconds_per_step() * static_cast<double>(steps - step)));
  if (result.decision != SpikeGuard::Decision::apply) text += fmt::format("  ({})", name_of(result.decision));
  return text;
}

TrainingLog::TrainingLog(const Communicator& group, const ResolvedConfiguration& configuration, const RunStart& start)
    : is_root_(group.is_root()),
      ranks_(group.size()),
      config_(configuration.values),
      throughput_(tokens_per_step(configuration.values), start.flops_per_token, start.peak_flops) {
  if (!is_root_) return;
  std::fputs(header(configuration, start).c_str(), stdout);
  std::fflush(stdout);
  const std::filesystem::path directory = start.run_directory;
  write_file_durably(directory / kConfigurationFile, configuration.ini());
  metrics_ = std::make_unique<MetricsLog>(directory, config_.metrics, start.first_step - 1);
  metrics_->write({"start",
                   start.first_step - 1,
                   {{"ranks", int64_t{start.ranks}},
                    {"threads", int64_t{start.threads}},
                    {"config_hash", configuration.hash()},
                    {"commit", std::string(build_info().commit)}}});
}

void TrainingLog::line(const std::string& text) {
  if (!is_root_) return;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void TrainingLog::reduction(int64_t step, const ReductionTimeline& timeline) {
  std::vector<double> ready, started, done;
  for (const BucketTimes& bucket : timeline.buckets) {
    ready.push_back(bucket.ready);
    started.push_back(bucket.started);
    done.push_back(bucket.done);
  }
  metrics_->write({"reduction",
                   step,
                   {{"backward_end", timeline.backward_end},
                    {"finished", timeline.finished},
                    {"exposed", timeline.exposed_seconds()},
                    {"bucket_ready", ready},
                    {"bucket_started", started},
                    {"bucket_done", done}}});
}

void GateInterval::add(const GateMeasurement& step) {
  tokens += step.entropy.count;
  fired += step.fired;
  entropy_sum += step.entropy.mean * static_cast<double>(step.entropy.count);
  threshold = step.threshold;
}

std::string fire_text(const std::vector<GateInterval>& gates) {
  std::string rates;
  for (const GateInterval& gate : gates) {
    rates += fmt::format("{}{:.1f}", rates.empty() ? "" : "/", 100 * gate.fire_rate());
  }
  return rates.empty() ? "" : "  fire " + rates + " %";
}

void TrainingLog::count(const StepResult& result) {
  gates_.resize(result.gates.size());
  for (size_t gate = 0; gate < gates_.size(); ++gate) gates_[gate].add(result.gates[gate]);
  if (result.decision != SpikeGuard::Decision::apply) return;
  for (const SlotLoss& slot : result.slots) add_memberships(memberships_, slot.memberships);
}

void TrainingLog::add_gates(MetricsLine& line) const {
  for (size_t gate = 0; gate < gates_.size(); ++gate) {
    line.values.emplace_back(fmt::format("fire_rate.{}", gate), gates_[gate].fire_rate());
    line.values.emplace_back(fmt::format("entropy.{}", gate), gates_[gate].entropy());
    line.values.emplace_back(fmt::format("threshold.{}", gate), gates_[gate].threshold);
  }
}

void TrainingLog::add_memberships_of_interval(MetricsLine& line) const {
  if (memberships_.empty()) return;
  const MembershipSummary summary = summarize(memberships_);
  line.values.emplace_back("saturation", summary.saturation);
  line.values.emplace_back("membership_entropy", summary.relative_entropy);
  line.values.emplace_back("collapse", summary.collapse);
}

void TrainingLog::step(int64_t step, double learning_rate, const StepResult& result, double seconds,
                       const ReductionTimeline& timeline) {
  throughput_.add_step(seconds);
  count(result);
  const bool due = step % config_.metrics.every == 0 || step == config_.train.steps || step == 1;
  if (!is_root_ || (!due && result.decision == SpikeGuard::Decision::apply)) return;
  line(console_line(step, config_.train.steps, learning_rate, result, throughput_) + fire_text(gates_));
  const PhaseSeconds& phases = result.seconds;
  MetricsLine metrics{"train",
                      step,
                      {{"loss", result.cross_entropy},
                       {"gradient_norm", result.gradient_norm},
                       {"learning_rate", learning_rate},
                       {"tokens", step * tokens_per_step(config_)},
                       {"valid_targets", result.valid_targets},
                       {"tokens_per_second", throughput_.tokens_per_second()},
                       {"mfu", throughput_.utilisation()},
                       {"decision", std::string(name_of(result.decision))},
                       {"seconds", seconds},
                       {"seconds_data", phases.data},
                       {"seconds_forward", phases.forward},
                       {"seconds_backward", phases.backward},
                       {"seconds_reduction", phases.reduction},
                       {"seconds_reduction_exposed", timeline.exposed_seconds()},
                       {"seconds_norm", phases.norm},
                       {"seconds_update", phases.update}}};
  add_gates(metrics);
  add_memberships_of_interval(metrics);
  metrics_->write(metrics);
  gates_.clear();
  memberships_.clear();
  if (ranks_ > 1) reduction(step, timeline);
}

void TrainingLog::validation(int64_t step, const std::string& weights, int64_t length, const ValidationScore& score,
                             double seconds) {
  if (!is_root_) return;
  const bool game = !config_.game.lengths.empty();
  line(fmt::format(
      "validation after step {}: {} weights{}: CE {:.6f}  perplexity {:.3f}  accuracy {:.4f}  over {} targets "
      "in {:.1f} s",
      step, weights, game ? fmt::format(", rows of {}", length) : "", score.mean(), score.perplexity(),
      score.accuracy(), score.valid_targets, seconds));
  std::string kind = weights == "raw" ? "validation" : "validation_" + weights;
  if (length != config_.data.context) kind += fmt::format("_{}", length);
  MetricsLine metrics{kind,
                      step,
                      {{"cross_entropy", score.mean()},
                       {"perplexity", score.perplexity()},
                       {"accuracy", score.accuracy()},
                       {"valid_targets", score.valid_targets},
                       {"seconds", seconds}}};
  if (game) metrics.values.emplace_back("length", length);
  metrics_->write(metrics);
}

void TrainingLog::game(int64_t step, const GameReport& report) {
  if (!is_root_) return;
  const ContextGame::Decision& decision = report.decision;
  MetricsLine metrics{"game", step, {{"update", decision.update}, {"mean_utility", decision.mean_utility}}};
  std::string losses;
  for (size_t i = 0; i < decision.lengths.size(); ++i) {
    const int64_t length = decision.lengths[i];
    const ContextGame::Sums& played = report.played[i];
    metrics.values.emplace_back(fmt::format("q.{}", length), decision.probabilities[i]);
    metrics.values.emplace_back(fmt::format("targets.{}", length), played.tokens);
    if (played.tokens == 0) continue;
    const double loss = played.loss / static_cast<double>(played.tokens);
    metrics.values.emplace_back(fmt::format("loss.{}", length), loss);
    metrics.values.emplace_back(fmt::format("utility.{}", length), decision.utilities[i]);
    losses += fmt::format(" {}:{:.4f}", length, loss);
  }
  metrics.values.emplace_back("imbalance", report.imbalance);
  line(fmt::format("{}; loss{}; imbalance {:.2f}", decision.line(), losses, report.imbalance));
  metrics_->write(metrics);
}

void TrainingLog::prior(int64_t step, const PriorReport& report) {
  if (!is_root_) return;
  const ValidationMeasure& measure = report.measure;
  MetricsLine metrics{report.guardian ? "guardian" : "temperature",
                      step,
                      {{"gate_delta", measure.gate_delta},
                       {"saturation", measure.saturation},
                       {"membership_entropy", measure.entropy}}};
  if (report.guardian) {
    const Guardian::Decision& decision = *report.guardian;
    line(decision.line());
    metrics.values.insert(metrics.values.end(), {{"acted", int64_t{decision.acted}},
                                                 {"action_tau", decision.action[0]},
                                                 {"action_delta", decision.action[1]},
                                                 {"action_saturation", decision.action[2]},
                                                 {"rewarded", int64_t{decision.rewarded}},
                                                 {"reward", decision.reward},
                                                 {"advantage", decision.advantage},
                                                 {"step_size", decision.step_size},
                                                 {"tau", decision.tau},
                                                 {"lambda_delta", decision.lambda_delta},
                                                 {"lambda_saturation", decision.lambda_saturation},
                                                 {"over_tightening", decision.over_tightening},
                                                 {"over_saturation", decision.over_saturation}});
  }
  if (report.schedule) {
    const TemperatureSchedule::Decision& decision = *report.schedule;
    line(decision.line());
    metrics.values.insert(metrics.values.end(), {{"nudged", int64_t{decision.nudged}},
                                                 {"gain", decision.gain},
                                                 {"nudges", decision.nudges},
                                                 {"tau", report.temperature}});
  }
  metrics_->write(metrics);
}

void TrainingLog::selective_average(int64_t step, const SelectiveAverage::Decision& decision) {
  if (!is_root_) return;
  line(decision.line());
  metrics_->write({"selective_average",
                   step,
                   {{"usability", std::string(name_of(decision.usability))},
                    {"in_zone", int64_t{decision.in_zone}},
                    {"gain", decision.gain},
                    {"taken", int64_t{decision.take}},
                    {"snapshots", decision.snapshots}}});
}

void TrainingLog::best_weights(const BestWeights& best) {
  if (!best.weights.empty()) line(fmt::format("best weights: {} (CE {:.6f})", best.weights, best.cross_entropy));
}

void TrainingLog::save(const SaveReport& report) {
  if (!is_root_) return;
  if (!report.problem.empty()) {
    std::fflush(stdout);
    fmt::print(stderr, "longhaul: warning: checkpoint of step {}: {}\n", report.step, report.problem);
  }
  if (report.committed) {
    line(fmt::format("checkpoint of step {}: {} ({} bytes, {:.2f} s)", report.step, report.directory.string(),
                     count_text(static_cast<double>(report.bytes)), report.seconds));
  }
  metrics_->write({"checkpoint",
                   report.step,
                   {{"committed", int64_t{report.committed}}, {"bytes", report.bytes}, {"seconds", report.seconds}}});
}

}  // namespace longhaul
