// What the sharded optimizer needs to know of AdamW besides its kernel. Everything is a function of the step number.
#pragma once

#include <cstdint>

#include "core/nn/parameter_store.h"
#include "kernels/adamw.h"

namespace longhaul {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  ///< of the parameters registered with WeightDecay::yes
  bool operator==(const AdamWOptions&) const = default;
};

/// Coefficients of the update that makes step `step` (counted from 1). gradient_scale multiplies every gradient.
kernels::AdamWStep adamw_step(const AdamWOptions& options, int64_t step, double learning_rate, double gradient_scale,
                              WeightDecay decay);

}  // namespace longhaul
