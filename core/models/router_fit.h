// Fits a router to the exact entropies of a gate (models.md 6), after training.
#pragma once

#include <cstdint>

#include "core/models/gate_router.h"

namespace longhaul {

/// What a router is fitted to: inputs and exact entropies of one gate.
struct RouterSamples {
  Tensor inputs;     ///< f32 [tokens, d_model]
  Tensor entropies;  ///< f32 [tokens]
};

struct RouterFitOptions {
  double ridge = 1e-3;          ///< of the linear start, relative to the mean square of an input channel
  int64_t passes = 4;           ///< of AdamW over all samples after it
  int64_t batch = 256;          ///< samples of one update
  double learning_rate = 2e-4;  ///< at the start; falls linearly to 0
  int64_t hidden_units = GateRouter::kHiddenUnits;
  uint64_t seed = 0;
};

/// Least squares in two parts: the linear map by the normal equations with a ridge, in double, then everything together
/// by AdamW. An eighth of the samples, the last ones, is kept from AdamW and judges the passes: the result is the start
/// or the end of a pass, whichever errs least there. user_error without samples.
GateRouter fit_router(const RouterSamples& samples, const RouterFitOptions& options);

}  // namespace longhaul
