#include "core/control/guardian.h"

#include <algorithm>
#include <cmath>

#include "core/control/controller_random.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr double kTauStep = 0.03, kLambdaStep = 0.01;
constexpr double kOvershoot = 0.10;  ///< of what lies above the soft limit is taken off
constexpr double kMostLambdaDelta = 1, kMostLambdaSaturation = 0.6;
constexpr double kLearningRate = 1e-3;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

GaussianPolicy::Features features_of(const ValidationMeasure& measure) {
  return {measure.gate_delta, measure.saturation, measure.entropy, measure.cross_entropy};
}

}  // namespace

Guardian::Guardian(Options options) : options_(options) {
  if (!(options.power == 0 || (options.power > 0.5 && options.power <= 1))) {
    throw user_error("guardian.power is {}; expected 0 (constant steps) or 1/2 < power <= 1", options.power);
  }
  if (!(options.tau_min > 0 && options.tau_min <= options.tau_start && options.tau_start <= options.tau_max)) {
    throw user_error("guardian: temperatures {} <= {} <= {} expected (least, start, most), the least above 0",
                     options.tau_min, options.tau_start, options.tau_max);
  }
  if (!(options.beta >= 0 && options.time_scale > 0 && options.zone_width > 0)) {
    throw user_error("guardian: step size {} must not be negative, time scale {} and zone width {} must be positive",
                     options.beta, options.time_scale, options.zone_width);
  }
  state_.policy = GaussianPolicy::initial(options.seed);
  state_.tau = options.tau_start;
  state_.lambda_delta = options.lambda_delta_start;
  state_.lambda_saturation = options.lambda_saturation_start;
}

double Guardian::step_size(int64_t action) const {
  return options_.beta / std::pow(1 + static_cast<double>(action) / options_.time_scale, options_.power);
}

double Guardian::reward(double previous, double now) const {
  const double gain = std::max(0.0, previous - now);
  const double lateness = sigmoid((options_.zone - previous) / options_.zone_width);
  return -now + options_.gain_weight * gain +
         options_.low_gain_weight * sigmoid(options_.gain_sharpness * gain * lateness);
}

void Guardian::pay(const ValidationMeasure& measure, Decision& decision) {
  decision.rewarded = true;
  decision.reward = reward(state_.cross_entropy, measure.cross_entropy);
  double baseline = 0;
  if (options_.baseline == Baseline::unchanged) baseline = reward(state_.cross_entropy, state_.cross_entropy);
  if (options_.baseline == Baseline::mean) {
    baseline = state_.rewards == 0 ? decision.reward : state_.reward_mean;
    state_.reward_mean = options_.mean_decay * baseline + (1 - options_.mean_decay) * decision.reward;
    ++state_.rewards;
  }
  decision.advantage = decision.reward - baseline;
  GaussianPolicy::learn(state_.policy, state_.features, state_.action, decision.advantage, kLearningRate);
}

void Guardian::act(const ValidationMeasure& measure, Decision& decision) {
  state_.features = features_of(measure);
  const auto [mean, deviation] = GaussianPolicy::distribution(state_.policy, state_.features);
  const ControllerRandom random(options_.seed, ControllerStream::guardian, state_.actions);
  for (size_t i = 0; i < state_.action.size(); ++i) {
    state_.action[i] = mean[i] + deviation[i] * random.normal(static_cast<int64_t>(i));
  }
  const double beta = step_size(state_.actions++);
  const double moved = state_.tau + kTauStep * beta * state_.action[0];
  const double softened = moved - kOvershoot * std::max(0.0, moved - options_.tau_soft_max);
  state_.tau = std::clamp(softened, options_.tau_min, options_.tau_max);
  state_.lambda_delta = std::clamp(state_.lambda_delta + kLambdaStep * beta * state_.action[1], 0.0, kMostLambdaDelta);
  state_.lambda_saturation =
      std::clamp(state_.lambda_saturation + kLambdaStep * beta * state_.action[2], 0.0, kMostLambdaSaturation);
  state_.waiting = true;
  state_.cross_entropy = measure.cross_entropy;
  state_.data = measure.data;
  decision.acted = true;
  decision.step_size = beta;
  decision.action = state_.action;
}

Guardian::Decision Guardian::decide(const ValidationMeasure& measure) {
  Decision decision;
  decision.usability = judge(measure, state_.data);
  if (decision.usability == Usability::usable) {
    if (state_.waiting) pay(measure, decision);
    act(measure, decision);
    const double beyond = measure.saturation - options_.saturation_limit;
    decision.over_saturation = std::max(0.0, beyond / (1 - options_.saturation_limit));
  }
  decision.tau = state_.tau;
  decision.lambda_delta = state_.lambda_delta;
  decision.lambda_saturation = state_.lambda_saturation;
  const double range = options_.tau_effective_min - options_.tau_min;
  if (range > 0) decision.over_tightening = std::clamp((options_.tau_effective_min - state_.tau) / range, 0.0, 1.0);
  return decision;
}

void Guardian::set_state(const State& state) {
  for (const auto* values : {&state.policy.parameters, &state.policy.first_moments, &state.policy.second_moments}) {
    if (values->size() == GaussianPolicy::kParameters) continue;
    throw user_error("guardian: the state has {} values of the policy, expected {}; it was written by another version",
                     values->size(), GaussianPolicy::kParameters);
  }
  state_ = state;
}

std::string Guardian::Decision::line() const {
  if (!acted) return fmt::format("guardian: no action ({}); tau {:.4f}", name_of(usability), tau);
  const std::string paid = rewarded ? fmt::format("reward {:.4f}, advantage {:.4f}; ", reward, advantage) : "";
  return fmt::format(
      "guardian: {}action {:.3f} {:.3f} {:.3f}, step {:.4f}; tau {:.4f}, lambda_delta {:.4f}, lambda_sat {:.4f}; "
      "over-tightening {:.3f}, over-saturation {:.3f}",
      paid, action[0], action[1], action[2], step_size, tau, lambda_delta, lambda_saturation, over_tightening,
      over_saturation);
}

}  // namespace longhaul
