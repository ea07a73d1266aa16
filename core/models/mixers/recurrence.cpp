#include "core/models/mixers/recurrence.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

Initialization convolution_initialization(int64_t width) {
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  return {Initialization::Kind::custom, 0, [bound](int64_t, double uniform) { return bound * (2 * uniform - 1); }};
}

Initialization step_bias_initialization() {
  return {Initialization::Kind::custom, 0, [](int64_t, double uniform) {
            const double low = std::log(1e-3), high = std::log(1e-1);
            const double step = std::max(std::exp(low + uniform * (high - low)), 1e-4);
            return step + std::log(-std::expm1(-step));
          }};
}

}  // namespace longhaul
