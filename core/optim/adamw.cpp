#include "core/optim/adamw.h"

#include <cmath>

namespace longhaul {

kernels::AdamWStep adamw_step(const AdamWOptions& options, int64_t step, double learning_rate, double gradient_scale,
                              WeightDecay decay) {
  if (step < 1) throw internal_error("adamw_step: step {} (steps count from 1)", step);
  const double exponent = static_cast<double>(step);
  return {learning_rate,
          options.beta1,
          options.beta2,
          options.epsilon,
          decay == WeightDecay::yes ? options.weight_decay : 0.0,
          gradient_scale,
          1.0 - std::pow(options.beta1, exponent),
          1.0 - std::pow(options.beta2, exponent)};
}

}  // namespace longhaul
