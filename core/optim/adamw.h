// AdamW (Loshchilov & Hutter 2019): its settings and the numbers of one step.
#pragma once

#include <cstdint>

#include "core/nn/parameter_store.h"
#include "kernels/adamw.h"

namespace longhaul {

struct AdamWSettings {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  ///< of the parameters registered with WeightDecay::yes
};

/// The numbers of update number `update` (1 is the first) for a parameter with this decay. `gradient_scale` multiplies
/// the gradient: 1 / valid tokens times the clip factor. Bias corrections are computed from the number, never
/// accumulated.
kernels::AdamWStep adamw_step(const AdamWSettings& settings, int64_t update, double learning_rate,
                              double gradient_scale, WeightDecay decay);

}  // namespace longhaul
