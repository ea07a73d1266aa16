#include "kernels/activation.h"

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels {
namespace {

using simd::broadcast;
using simd::Element;
using simd::fma;

// With 0.5 (1 + tanh(z)) = sigmoid(2 z): gelu_tanh(u) = u sigmoid(u (kLinear + kCubic u^2)).
constexpr double kLinear = 1.5957691216057308;  ///< 2 sqrt(2 / pi)
constexpr double kCubic = kLinear * 0.044715;

template <typename V>
V gelu(V u) {
  using T = Element<V>;
  const V inner = fma(u * u, broadcast<T>(kCubic), broadcast<T>(kLinear));
  return u * simd::sigmoid(u * inner);
}

template <typename V>
V gelu_derivative(V u) {
  using T = Element<V>;
  // Beyond +-40 the sigmoid is exactly 0 or 1; the bound keeps the powers of u finite, so that 0 * inf does not appear.
  const V bounded = u < T(-40) ? V{} - T(40) : (u > T(40) ? V{} + T(40) : u);
  const V square = bounded * bounded;
  const V s = simd::sigmoid(bounded * fma(square, broadcast<T>(kCubic), broadcast<T>(kLinear)));
  const V slope = fma(square, broadcast<T>(3 * kCubic), broadcast<T>(kLinear));
  return fma(bounded * slope, s * (T(1) - s), s);
}

}  // namespace

template <typename T>
void bias_gelu_forward(Cpu, T* y, const T* x, const T* bias, int64_t rows, int64_t columns) {
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t at = begin * columns; at < end * columns; at += columns) {
      if (bias != nullptr)
        simd::transform(
            y + at, columns, [](auto value, auto shift) { return gelu(value + shift); }, x + at, bias);
      else
        simd::transform(
            y + at, columns, [](auto value) { return gelu(value); }, x + at);
    }
  });
}

template <typename T>
void bias_gelu_backward(Cpu, T* dx, const T* dy, const T* x, const T* bias, int64_t rows, int64_t columns) {
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t at = begin * columns; at < end * columns; at += columns) {
      if (bias != nullptr)
        simd::transform(
            dx + at, columns, [](auto g, auto value, auto shift) { return g * gelu_derivative(value + shift); },
            dy + at, x + at, bias);
      else
        simd::transform(
            dx + at, columns, [](auto g, auto value) { return g * gelu_derivative(value); }, dy + at, x + at);
    }
  });
}

template <typename T>
void swiglu_forward(Cpu, T* y, const T* gate_up, int64_t rows, int64_t columns) {
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const gate = gate_up + row * 2 * columns;
      simd::transform(
          y + row * columns, columns, [](auto g, auto u) { return g * simd::sigmoid(g) * u; }, gate, gate + columns);
    }
  });
}

namespace {

/// One vector of dgate and dup from (dy, gate, up).
template <typename V>
void swiglu_gradient(V dy, V gate, V up, V& dgate, V& dup) {
  using T = Element<V>;
  const V s = simd::sigmoid(gate);
  dgate = dy * up * (s * fma(gate, T(1) - s, broadcast<T>(1)));
  dup = dy * (gate * s);
}

}  // namespace

template <typename T>
void swiglu_backward(Cpu, T* dgate_up, const T* dy, const T* gate_up, int64_t rows, int64_t columns) {
  using V = simd::Vec<T>;
  constexpr int64_t kWidth = simd::kWidth<T>;
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T *const g = dy + row * columns, *const gate = gate_up + row * 2 * columns, *const up = gate + columns;
      T *const dgate = dgate_up + row * 2 * columns, *const dup = dgate + columns;
      V gate_part, up_part;
      int64_t i = 0;
      for (; i + kWidth <= columns; i += kWidth) {
        swiglu_gradient(simd::load(g + i), simd::load(gate + i), simd::load(up + i), gate_part, up_part);
        simd::store<T>(dgate + i, gate_part);
        simd::store<T>(dup + i, up_part);
      }
      if (const int64_t rest = columns - i; rest > 0) {
        swiglu_gradient(simd::load_part(g + i, rest), simd::load_part(gate + i, rest), simd::load_part(up + i, rest),
                        gate_part, up_part);
        simd::store_part<T>(dgate + i, gate_part, rest);
        simd::store_part<T>(dup + i, up_part, rest);
      }
    }
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                              \
  template void bias_gelu_forward(Cpu, T*, const T*, const T*, int64_t, int64_t);            \
  template void bias_gelu_backward(Cpu, T*, const T*, const T*, const T*, int64_t, int64_t); \
  template void swiglu_forward(Cpu, T*, const T*, int64_t, int64_t);                         \
  template void swiglu_backward(Cpu, T*, const T*, const T*, int64_t, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
