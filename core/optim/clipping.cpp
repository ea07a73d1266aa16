#include "core/optim/clipping.h"

#include <cmath>

#include "kernels/error.h"

namespace longhaul {

double clip_factor(double norm, double max_norm) {
  if (!std::isfinite(norm)) throw internal_error("clip_factor: the gradient norm is {}", norm);
  if (max_norm <= 0 || norm <= max_norm) return 1.0;
  return max_norm / norm;
}

}  // namespace longhaul
