#include "kernels/recurrent_gates.h"

#include <algorithm>
#include <cmath>

namespace longhaul::kernels {
namespace {

/// log(1 + exp(x)), safe for any x.
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

}  // namespace

// A few values per token: computed in double, heads split over threads where rows are summed.

template <typename T>
void softplus_gate_forward(Cpu, T* y, const T* x, int64_t x_stride, const T* bias, int64_t rows, int64_t heads,
                           double low, double high) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t h = 0; h < heads; ++h) {
      const double value = softplus(static_cast<double>(x[row * x_stride + h]) + static_cast<double>(bias[h]));
      y[row * heads + h] = static_cast<T>(std::clamp(value, low, high));
    }
  }
}

template <typename T>
void softplus_gate_backward(Cpu, T* dx, int64_t dx_stride, T* dbias, bool accumulate, const T* dy, const T* x,
                            int64_t x_stride, const T* bias, int64_t rows, int64_t heads, double low, double high) {
#pragma omp parallel for schedule(static)
  for (int64_t h = 0; h < heads; ++h) {
    double sum = accumulate ? static_cast<double>(dbias[h]) : 0.0;
    for (int64_t row = 0; row < rows; ++row) {
      const double argument = static_cast<double>(x[row * x_stride + h]) + static_cast<double>(bias[h]);
      const double value = softplus(argument);
      const bool inside = value >= low && value <= high;
      const double gradient = inside ? static_cast<double>(dy[row * heads + h]) * sigmoid(argument) : 0.0;
      dx[row * dx_stride + h] = static_cast<T>(gradient);
      sum += gradient;
    }
    dbias[h] = static_cast<T>(sum);
  }
}

template <typename T>
void delta_gates_forward(Cpu, T* log_alpha, T* beta, const T* a, const T* b, int64_t stride, const T* a_log,
                         const T* dt_bias, int64_t rows, int64_t heads) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = row * heads + h;
      const double rate = -std::exp(static_cast<double>(a_log[h]));
      log_alpha[at] =
          static_cast<T>(rate * softplus(static_cast<double>(a[row * stride + h]) + static_cast<double>(dt_bias[h])));
      beta[at] = static_cast<T>(sigmoid(static_cast<double>(b[row * stride + h])));
    }
  }
}

template <typename T>
void delta_gates_backward(Cpu, T* da, T* db, T* da_log, T* ddt_bias, bool accumulate, const T* dlog_alpha,
                          const T* dbeta, const T* a, const T* b, int64_t stride, const T* a_log, const T* dt_bias,
                          int64_t rows, int64_t heads) {
#pragma omp parallel for schedule(static)
  for (int64_t h = 0; h < heads; ++h) {
    const double rate = -std::exp(static_cast<double>(a_log[h]));
    double rate_gradient = accumulate ? static_cast<double>(da_log[h]) : 0.0;
    double bias_gradient = accumulate ? static_cast<double>(ddt_bias[h]) : 0.0;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = row * heads + h;
      const double argument = static_cast<double>(a[row * stride + h]) + static_cast<double>(dt_bias[h]);
      const double incoming = static_cast<double>(dlog_alpha[at]) * rate;
      rate_gradient += incoming * softplus(argument);
      const double gradient = incoming * sigmoid(argument);
      da[row * stride + h] = static_cast<T>(gradient);
      bias_gradient += gradient;
      const double beta = sigmoid(static_cast<double>(b[row * stride + h]));
      db[row * stride + h] = static_cast<T>(static_cast<double>(dbeta[at]) * beta * (1 - beta));
    }
    da_log[h] = static_cast<T>(rate_gradient);
    ddt_bias[h] = static_cast<T>(bias_gradient);
  }
}

#define LONGHAUL_INSTANTIATE(T)                                                                                       \
  template void softplus_gate_forward<T>(Cpu, T*, const T*, int64_t, const T*, int64_t, int64_t, double, double);     \
  template void softplus_gate_backward<T>(Cpu, T*, int64_t, T*, bool, const T*, const T*, int64_t, const T*, int64_t, \
                                          int64_t, double, double);                                                   \
  template void delta_gates_forward<T>(Cpu, T*, T*, const T*, const T*, int64_t, const T*, const T*, int64_t,         \
                                       int64_t);                                                                      \
  template void delta_gates_backward<T>(Cpu, T*, T*, T*, T*, bool, const T*, const T*, const T*, const T*, int64_t,   \
                                        const T*, const T*, int64_t, int64_t)
LONGHAUL_INSTANTIATE(float);
LONGHAUL_INSTANTIATE(double);
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
