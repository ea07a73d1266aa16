#include "core/control/temperature_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/error.h"

namespace longhaul {

TemperatureSchedule::TemperatureSchedule(Options options) : options_(options) {
  for (const double tau : {options.first, options.reached, options.last, options.lowest}) {
    if (!(tau > 0)) throw user_error("temperature schedule: temperature {} found, expected more than 0", tau);
  }
  if (!(options.lowest <= options.highest)) {
    throw user_error("temperature schedule: the lowest temperature {} is above the highest {}", options.lowest,
                     options.highest);
  }
}

double TemperatureSchedule::temperature(int64_t step) const {
  const auto part = [](int64_t done, int64_t all) {
    return all <= 0 ? 1.0 : std::clamp(static_cast<double>(done) / static_cast<double>(all), 0.0, 1.0);
  };
  double tau = 0;
  if (step < options_.warm_in_steps) {
    tau = options_.first + (options_.reached - options_.first) * part(step, options_.warm_in_steps);
  } else {
    const double progress = part(step - options_.warm_in_steps, options_.cosine_steps);
    tau = options_.last + (options_.reached - options_.last) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  return std::clamp(tau + state_.nudges, options_.lowest, options_.highest);
}

TemperatureSchedule::Decision TemperatureSchedule::decide(const ValidationMeasure& measure) {
  Decision decision{.usability = judge(measure, state_.data), .nudges = state_.nudges};
  if (decision.usability != Usability::usable) return decision;
  const bool first = state_.data.empty();
  if (!first) decision.gain = state_.cross_entropy - measure.cross_entropy;
  decision.nudged = !first && measure.cross_entropy <= options_.zone && decision.gain < options_.least_gain;
  // Once the sum spans the range, more of it could not be seen and would only delay a way back.
  if (decision.nudged) state_.nudges = std::min(state_.nudges + options_.nudge, options_.highest - options_.lowest);
  state_.cross_entropy = measure.cross_entropy;
  state_.data = measure.data;
  decision.nudges = state_.nudges;
  return decision;
}

std::string TemperatureSchedule::Decision::line() const {
  if (usability != Usability::usable) {
    return fmt::format("temperature schedule: no action ({}); nudges {:.4f}", name_of(usability), nudges);
  }
  return fmt::format("temperature schedule: {}, gain {:.5f}; nudges {:.4f}", nudged ? "nudged up" : "as scripted", gain,
                     nudges);
}

}  // namespace longhaul
