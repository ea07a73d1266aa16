// Learning rate of a step: linear warm-up, flat part, cosine to a floor that is never zero (training-dynamics.md).
#pragma once

#include <cstdint>

namespace longhaul {

/// A pure function of the step: nothing accumulates, so a resumed or re-planned run prints exactly what this says.
struct LrSchedule {
  double peak = 3e-4;
  int64_t warmup_steps = 0;  ///< rate of step s <= warmup: peak * s / warmup
  int64_t flat_steps = 0;    ///< then this many steps at the peak
  int64_t decay_steps = 0;   ///< then a cosine over this many steps
  double floor = 0.1;        ///< last rate / peak; holds for every later step

  /// Rate of optimizer step `step` (the first is 1).
  double rate(int64_t step) const;
};

}  // namespace longhaul
