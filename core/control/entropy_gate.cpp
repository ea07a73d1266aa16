#include "core/control/entropy_gate.h"

namespace longhaul {

float EntropyGate::threshold() const {
  const double above = options_.adaptive ? options_.kappa * state_.deviation : options_.margin;
  return static_cast<float>(state_.mean + above);
}

void EntropyGate::update(const EntropySummary& summary) {
  const double old = options_.momentum, fresh = 1 - options_.momentum;
  if (summary.count > 0) state_.mean = old * state_.mean + fresh * summary.median;
  if (summary.count > 1) state_.deviation = old * state_.deviation + fresh * summary.deviation;
}

}  // namespace longhaul
