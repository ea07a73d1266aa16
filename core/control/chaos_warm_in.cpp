#include "core/control/chaos_warm_in.h"

#include <cmath>

#include "kernels/error.h"

namespace longhaul {

ChaosWarmIn::ChaosWarmIn(Options options) : options_(options), state_{.step = 0, .x = options.start} {
  if (!(options.growth > 0 && options.growth <= 4 && options.start > 0 && options.start < 1)) {
    throw user_error("chaos warm-in: growth {} and start {} found, expected 0 < growth <= 4 and 0 < start < 1",
                     options.growth, options.start);
  }
  if (!(options.amplitude >= 0 && options.amplitude <= 1 && options.decay >= 0)) {
    throw user_error("chaos warm-in: amplitude {} and decay {} found, expected 0 to 1, and 0 or more",
                     options.amplitude, options.decay);
  }
}

double ChaosWarmIn::factor(int64_t step) {
  if (step < 0) throw internal_error("chaos warm-in: step {} is negative", step);
  if (step < state_.step) state_ = {.step = 0, .x = options_.start};
  for (; state_.step < step; ++state_.step) state_.x = options_.growth * state_.x * (1 - state_.x);
  const double amplitude = options_.amplitude * std::exp(-options_.decay * static_cast<double>(step));
  return (1 - amplitude) + amplitude * state_.x;
}

}  // namespace longhaul
