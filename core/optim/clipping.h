// Clipping by the global gradient norm (Pascanu et al. 2013).
#pragma once

namespace longhaul {

/// Factor in (0, 1] that brings a gradient of norm `norm` down to `max_norm`; 1 when it is not longer. max_norm 0: no
/// clipping. norm must be finite (the spike guard has skipped the step otherwise): internal_error.
double clip_factor(double norm, double max_norm);

}  // namespace longhaul
