#include "launch/training/prior_control.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace longhaul {
namespace {

Guardian::Baseline baseline_of(const std::string& name) {
  if (name == "none") return Guardian::Baseline::none;
  return name == "mean" ? Guardian::Baseline::mean : Guardian::Baseline::unchanged;
}

Guardian::Options guardian_options(const Configuration& configuration) {
  const GuardianConfig& config = configuration.guardian;
  Guardian::Options options;
  options.tau_start = configuration.model.rpa.temperature;
  options.tau_min = config.least_temperature;
  options.tau_max = config.most_temperature;
  options.tau_effective_min = configuration.model.rpa.least_temperature;
  if (options.tau_start < options.tau_min || options.tau_start > options.tau_max) {
    throw user_error("rpa.temperature is {}; guardian.least_temperature and most_temperature allow {} to {}",
                     options.tau_start, options.tau_min, options.tau_max);
  }
  options.beta = config.beta;
  options.time_scale = config.time_scale;
  options.power = config.power;
  options.gain_weight = config.gain_weight;
  options.low_gain_weight = config.low_gain_weight;
  options.zone = config.zone;
  options.baseline = baseline_of(config.baseline);
  options.seed = configuration.train.seed;
  return options;
}

TemperatureSchedule::Options schedule_options(const Configuration& configuration) {
  const TemperatureConfig& config = configuration.temperature;
  const int64_t rest = std::max<int64_t>(0, configuration.train.steps - config.warm_in_steps);
  return {.first = config.first,
          .reached = configuration.model.rpa.temperature,
          .last = config.last,
          .warm_in_steps = config.warm_in_steps,
          .cosine_steps = config.cosine_steps > 0 ? config.cosine_steps : rest,
          .zone = config.zone,
          .least_gain = config.least_gain,
          .nudge = config.nudge};
}

void check_controllers(const Configuration& configuration) {
  const bool guardian = configuration.guardian.enabled, schedule = configuration.temperature.enabled;
  if (!guardian && !schedule) return;
  if (guardian && schedule) {
    throw user_error("guardian.enabled and temperature.enabled are both true; only one can move the temperature");
  }
  const char* const key = guardian ? "guardian.enabled" : "temperature.enabled";
  if (!configuration.model.has_memberships()) {
    throw user_error("{} is true, but the model has no memberships; set rpa.prior = on or model.family = {}", key,
                     "fuzzy_transformer");
  }
  if (configuration.validation.every == 0) {
    throw user_error(
        "{} is true but validation.every is 0; decisions follow validations: set validation.every to the steps between "
        "them",
        key);
  }
}

}  // namespace

PriorControl::PriorControl(const Configuration& configuration)
    : has_memberships_(configuration.model.has_memberships()),
      constant_temperature_(configuration.model.rpa.temperature),
      warm_steps_(configuration.model.rpa.warm_steps),
      longest_(configuration.data.context) {
  check_controllers(configuration);
  if (configuration.guardian.enabled) guardian_.emplace(guardian_options(configuration));
  if (configuration.temperature.enabled) schedule_.emplace(schedule_options(configuration));
}

double PriorControl::temperature(int64_t step) const {
  if (guardian_) return guardian_->tau();
  return schedule_ ? schedule_->temperature(step) : constant_temperature_;
}

void PriorControl::prepare(int64_t step, double chaos, LanguageModel& model) const {
  if (!has_memberships_) return;
  const double warm = step < warm_steps_ ? static_cast<double>(step) / static_cast<double>(warm_steps_) : 1.0;
  model.prior_memory()->set_control({.temperature = temperature(step),
                                     .warm = warm * chaos,
                                     .lambda_saturation = guardian_ ? guardian_->lambda_saturation() : 0});
}

void PriorControl::observe(const StepResult& result) {
  if (!guardian_ && !schedule_) return;
  if (result.decision != SpikeGuard::Decision::apply) return;
  for (const SlotLoss& slot : result.slots) add_memberships(played_, slot.memberships);
}

double PriorControl::gate_delta(const std::vector<double>& gates) const {
  if (gates.size() != gates_.size()) return 0;
  double sum = 0;
  for (size_t layer = 0; layer < gates.size(); ++layer) sum += std::abs(gates[layer] - gates_[layer]);
  return gates.empty() ? 0 : sum / static_cast<double>(gates.size());
}

std::optional<PriorReport> PriorControl::validate(const std::string& data, double cross_entropy,
                                                  const LanguageModel& model) {
  if (!guardian_ && !schedule_) return std::nullopt;
  const std::vector<double> gates = model.residual_gates(longest_);
  const MembershipSummary memberships = summarize(played_);
  PriorReport report{.measure = {.finished = true,
                                 .data = data,
                                 .cross_entropy = cross_entropy,
                                 .gate_delta = gate_delta(gates),
                                 .saturation = memberships.saturation,
                                 .entropy = memberships.relative_entropy},
                     .temperature = model.prior_memory()->control().temperature,
                     .guardian = {},
                     .schedule = {}};
  if (guardian_) report.guardian = guardian_->decide(report.measure);
  if (schedule_) report.schedule = schedule_->decide(report.measure);
  if ((guardian_ ? report.guardian->usability : report.schedule->usability) == Usability::usable) {
    played_.clear();
    gates_ = gates;
  }
  return report;
}

std::optional<PriorControl::State> PriorControl::state() const {
  if (!guardian_ && !schedule_) return std::nullopt;
  State state{.guardian = {}, .schedule = {}, .played = played_, .gates = gates_};
  if (guardian_) state.guardian = guardian_->state();
  if (schedule_) state.schedule = schedule_->state();
  return state;
}

void PriorControl::set_state(const std::optional<State>& state, const std::string& origin) {
  const bool continues = state && ((guardian_ && state->guardian) || (schedule_ && state->schedule));
  if (!continues) return;
  try {
    if (guardian_) guardian_->set_state(*state->guardian);
    if (schedule_) schedule_->set_state(*state->schedule);
  } catch (const Error& error) {
    throw error.within(origin);
  }
  played_ = state->played;
  gates_ = state->gates;
}

}  // namespace longhaul
