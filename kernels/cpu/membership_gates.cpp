#include "kernels/membership_gates.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

namespace longhaul::kernels {
namespace {

constexpr double kLeastMembership = 1e-30;  ///< below it the slope of the entropy no longer grows

template <typename T>
double product(const T* a, const T* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

template <typename T>
bool below_floor(const T* memberships, int32_t target, double least, int64_t regimes) {
  return target >= 0 && membership_entropy(memberships, regimes) < least;
}

double least_entropy(double share, int64_t regimes) { return share * std::log(static_cast<double>(regimes)); }

}  // namespace

template <typename T>
void membership_gate_forward(Cpu, T* y, T* gate, const T* x, const T* memberships, const T* weight, int64_t tokens,
                             int64_t regimes, int64_t columns) {
  parallel_ranges(tokens, 1, tokens * columns, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      gate[t] = static_cast<T>(1 / (1 + std::exp(-product(memberships + t * regimes, weight, regimes))));
      write_scaled(y + t * columns, false, gate[t], x + t * columns, columns);
    }
  });
}

template <typename T>
void membership_gate_backward(Cpu, T* dx, bool accumulate_x, T* dmemberships, bool accumulate_memberships, T* dweight,
                              bool accumulate_weight, T* dscore, const T* dy, const T* x, const T* gate,
                              const T* memberships, const T* weight, int64_t tokens, int64_t regimes, int64_t columns) {
  parallel_ranges(tokens, 16, tokens * columns, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T dgate = static_cast<T>(dot(dy + t * columns, x + t * columns, columns));
      dscore[t] = dgate * gate[t] * (T(1) - gate[t]);
      if (dx != nullptr) write_scaled(dx + t * columns, accumulate_x, gate[t], dy + t * columns, columns);
      if (dmemberships == nullptr) continue;
      T* const target = dmemberships + t * regimes;
      for (int64_t r = 0; r < regimes; ++r)
        target[r] = (accumulate_memberships ? target[r] : T(0)) + dscore[t] * weight[r];
    }
  });
  if (dweight == nullptr) return;
  for (int64_t r = 0; r < regimes; ++r) {
    double sum = accumulate_weight ? static_cast<double>(dweight[r]) : 0.0;
    for (int64_t t = 0; t < tokens; ++t)
      sum += static_cast<double>(dscore[t]) * static_cast<double>(memberships[t * regimes + r]);
    dweight[r] = static_cast<T>(sum);
  }
}

template <typename T>
double membership_entropy(const T* memberships, int64_t regimes) {
  double entropy = 0;
  for (int64_t r = 0; r < regimes; ++r) {
    const double m = static_cast<double>(memberships[r]);
    if (m != 0) entropy -= m * std::log(m);  // NaN stays NaN
  }
  return entropy;
}

template <typename T>
double entropy_floor_forward(Cpu, const T* memberships, const int32_t* targets, double share, int64_t tokens,
                             int64_t regimes) {
  const double least = least_entropy(share, regimes);
  double sum = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    if (targets[t] < 0) continue;
    const double below = least - membership_entropy(memberships + t * regimes, regimes);
    sum += below < 0 ? 0.0 : below;
  }
  return sum;
}

template <typename T>
void entropy_floor_backward(Cpu, T* dmemberships, bool accumulate, double factor, const T* memberships,
                            const int32_t* targets, double share, int64_t tokens, int64_t regimes) {
  const double least = least_entropy(share, regimes);
  parallel_ranges(tokens, 16, tokens * regimes * 16, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* const m = memberships + t * regimes;
      T* const target = dmemberships + t * regimes;
      const bool below = below_floor(m, targets[t], least, regimes);
      for (int64_t r = 0; r < regimes; ++r) {
        const double slope = std::log(std::max(static_cast<double>(m[r]), kLeastMembership)) + 1;
        const T gradient = below ? static_cast<T>(factor * slope) : T(0);
        target[r] = accumulate ? target[r] + gradient : gradient;
      }
    }
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                                                \
  template void membership_gate_forward(Cpu, T*, T*, const T*, const T*, const T*, int64_t, int64_t, int64_t); \
  template void membership_gate_backward(Cpu, T*, bool, T*, bool, T*, bool, T*, const T*, const T*, const T*,  \
                                         const T*, const T*, int64_t, int64_t, int64_t);                       \
  template double membership_entropy(const T*, int64_t);                                                       \
  template double entropy_floor_forward(Cpu, const T*, const int32_t*, double, int64_t, int64_t);              \
  template void entropy_floor_backward(Cpu, T*, bool, double, const T*, const int32_t*, double, int64_t, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
