#include "core/control/lr_schedule.h"

#include <cmath>
#include <numbers>

namespace longhaul {

double LrSchedule::rate(int64_t step) const {
  if (step <= warmup_steps) return peak * static_cast<double>(step) / static_cast<double>(warmup_steps);
  const int64_t decayed = step - warmup_steps - flat_steps;
  if (decayed <= 0) return peak;
  if (decayed >= decay_steps) return peak * floor;
  const double progress = static_cast<double>(decayed) / static_cast<double>(decay_steps);
  return peak * (floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

}  // namespace longhaul
