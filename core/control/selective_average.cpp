#include "core/control/selective_average.h"

#include <fmt/format.h>

namespace longhaul {

SelectiveAverage::Decision SelectiveAverage::decide(int64_t step, const ValidationMeasure& measure) {
  Decision decision{.usability = judge(measure, state_.data), .snapshots = state_.snapshots};
  if (decision.usability != Usability::usable) return decision;
  state_.data = measure.data;
  decision.in_zone = measure.cross_entropy <= options_.zone;
  if (!decision.in_zone) return decision;
  if (!state_.entered) {
    state_.entered = true;
    state_.entry = measure.cross_entropy;
  }
  decision.gain = (state_.entry - measure.cross_entropy) / state_.entry;
  decision.take = step >= options_.start_step && decision.gain > options_.least_gain;
  if (!decision.take) return decision;
  decision.snapshots = ++state_.snapshots;
  decision.weight = 1 / static_cast<double>(state_.snapshots);
  return decision;
}

std::string SelectiveAverage::Decision::line() const {
  if (usability != Usability::usable) {
    return fmt::format("selective average: no snapshot ({}); n {}", name_of(usability), snapshots);
  }
  if (take) return fmt::format("selective average: snapshot, gain {:.5f}, weight 1/{}", gain, snapshots);
  return fmt::format("selective average: no snapshot ({}, gain {:.5f}); n {}",
                     in_zone ? "inside the zone" : "outside the zone", gain, snapshots);
}

}  // namespace longhaul
