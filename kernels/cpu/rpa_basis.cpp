#include "kernels/rpa_basis.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/parallel.h"

namespace longhaul::kernels {

template <typename T>
void rpa_basis(Cpu, T* basis, int64_t length, int64_t count) {
  const double last = static_cast<double>(length - 1);
  const double width = std::max(1.0, 1.5 * static_cast<double>(length) / static_cast<double>(count));
  const auto bump = [=](int64_t t, int64_t k) {
    const double centre = count > 1 ? last * static_cast<double>(k) / static_cast<double>(count - 1) : 0.0;
    const double distance = std::min(std::abs(static_cast<double>(t) - centre) / width, 1.0);
    return 0.5 * (1.0 + std::cos(std::numbers::pi * distance));
  };
  parallel_ranges(length, 1, length * count, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      double sum = 1e-6;
      for (int64_t k = 0; k < count; ++k) sum += bump(t, k);
      for (int64_t k = 0; k < count; ++k) basis[t * count + k] = static_cast<T>(bump(t, k) / sum);
    }
  });
}

template void rpa_basis(Cpu, float*, int64_t, int64_t);
template void rpa_basis(Cpu, double*, int64_t, int64_t);

}  // namespace longhaul::kernels
