#include "core/control/spike_guard.h"

#include <cmath>

#include "kernels/error.h"

namespace longhaul {

SpikeGuard::Decision SpikeGuard::judge(double loss, double gradient_norm) const {
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) return Decision::skip_nonfinite;
  const bool judged = options_.factor > 0 && state_.applied >= options_.warmup;
  return judged && gradient_norm > options_.factor * state_.mean_norm ? Decision::skip_spike : Decision::apply;
}

SpikeGuard::Decision SpikeGuard::decide(double loss, double gradient_norm) {
  const Decision decision = judge(loss, gradient_norm);
  if (decision == Decision::apply) {
    const bool first = state_.applied == 0;
    state_.mean_norm =
        first ? gradient_norm : options_.mean_decay * state_.mean_norm + (1 - options_.mean_decay) * gradient_norm;
    ++state_.applied;
    state_.consecutive = 0;
    return decision;
  }
  ++state_.skipped;
  if (++state_.consecutive >= options_.max_consecutive) {
    throw system_error(
        "{} steps in a row were skipped (last loss {}, gradient norm {}); lower schedule.learning_rate or resume from "
        "an "
        "earlier checkpoint with --resume STEP",
        state_.consecutive, loss, gradient_norm);
  }
  return decision;
}

const char* name_of(SpikeGuard::Decision decision) {
  switch (decision) {
    case SpikeGuard::Decision::apply:
      return "applied";
    case SpikeGuard::Decision::skip_nonfinite:
      return "skipped: not finite";
    case SpikeGuard::Decision::skip_spike:
      return "skipped: spike";
  }
  return "";
}

}  // namespace longhaul
