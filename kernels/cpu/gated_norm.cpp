#include "kernels/gated_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/simd.h"

namespace longhaul::kernels {
namespace {

/// silu(gate) of one value and its derivative.
template <typename T>
struct Silu {
  T value, slope;
  explicit Silu(T gate) {
    const T sigmoid = T(1) / (T(1) + std::exp(-gate));
    value = gate * sigmoid;
    slope = sigmoid * (T(1) + gate * (T(1) - sigmoid));
  }
};

template <typename T>
auto silu(simd::Vec<T> gate) {
  return gate * simd::sigmoid(gate);
}

/// One group of one row.
template <typename T>
struct Group {
  Group(const GatedNormShape& shape, const T* x_all, const T* gate_all, const T* weight_all, int64_t row, int64_t group)
      : x(x_all + row * shape.x_stride + group * shape.size),
        gate(gate_all + row * shape.gate_stride + group * shape.size),
        weight(weight_all + (shape.shared_weight ? 0 : group * shape.size)) {}
  const T *x, *gate, *weight;
};

template <typename T>
void forward_group(T* y, T* rstd, const Group<T>& in, const GatedNormShape& shape) {
  using V = simd::Vec<T>;
  const T sum = shape.gate_first ? simd::transform_sum<T>(
                                       shape.size,
                                       [](V x, V g) {
                                         const V u = x * silu<T>(g);
                                         return u * u;
                                       },
                                       in.x, in.gate)
                                 : simd::transform_sum<T>(
                                       shape.size, [](V x) { return x * x; }, in.x);
  const T r = T(1) / std::sqrt(sum / static_cast<T>(shape.size) + static_cast<T>(shape.epsilon));
  *rstd = r;
  simd::transform<T>(
      y, shape.size, [r](V x, V g, V w) { return x * silu<T>(g) * r * w; }, in.x, in.gate, in.weight);
}

/// With n = normed value, s = silu(gate): gate first y = w r u, u = x s; else y = w r x s. In both cases the norm's
/// gradient is r (a - r^2 u mean(a u)) with a = gradient of the normed value times w.
template <typename T>
void backward_group(T* dx, T* dgate, const T* dy, T r, const Group<T>& in, const GatedNormShape& shape) {
  const T size = static_cast<T>(shape.size);
  T dot = 0;
  for (int64_t c = 0; c < shape.size; ++c) dot += dy[c] * in.weight[c] * in.x[c] * Silu<T>(in.gate[c]).value;
  const T pull = r * r * r * dot / size;
  for (int64_t c = 0; c < shape.size; ++c) {
    const Silu<T> s(in.gate[c]);
    const T gradient = dy[c] * in.weight[c];
    if (shape.gate_first) {
      const T du = r * gradient - pull * in.x[c] * s.value;
      dx[c] = du * s.value;
      dgate[c] = du * in.x[c] * s.slope;
    } else {
      dx[c] = r * gradient * s.value - pull * in.x[c];
      dgate[c] = gradient * r * in.x[c] * s.slope;
    }
  }
}

}  // namespace

template <typename T>
void gated_norm_forward(Cpu, T* y, T* rstd, const T* x, const T* gate, const T* weight, const GatedNormShape& shape) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t group = 0; group < shape.groups; ++group) {
      forward_group(y + row * shape.columns() + group * shape.size, rstd + row * shape.groups + group,
                    Group<T>(shape, x, gate, weight, row, group), shape);
    }
  }
}

template <typename T>
void gated_norm_backward(Cpu, T* dx, T* dgate, int64_t dgate_stride, T* dweight, bool accumulate_parameters,
                         const T* dy, const T* x, const T* gate, const T* weight, const T* rstd,
                         const GatedNormShape& shape) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t group = 0; group < shape.groups; ++group) {
      const int64_t at = row * shape.columns() + group * shape.size;
      backward_group(dx + at, dgate + row * dgate_stride + group * shape.size, dy + at,
                     rstd[row * shape.groups + group], Group<T>(shape, x, gate, weight, row, group), shape);
    }
  }
  // Columns are split over threads and rows taken in order, so the sum does not depend on the number of threads.
  constexpr int64_t kBlock = 64;
  const int64_t weights = shape.shared_weight ? shape.size : shape.columns();
  if (!accumulate_parameters) std::fill_n(dweight, weights, T(0));
#pragma omp parallel for schedule(static)
  for (int64_t begin = 0; begin < weights; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, weights);
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t group = 0; group < (shape.shared_weight ? shape.groups : 1); ++group) {
        for (int64_t c = begin; c < end; ++c) {
          const int64_t column = group * shape.size + c;
          const T r = rstd[row * shape.groups + column / shape.size];
          const T gated = x[row * shape.x_stride + column] * Silu<T>(gate[row * shape.gate_stride + column]).value;
          dweight[c] += dy[row * shape.columns() + column] * r * gated;
        }
      }
    }
  }
}

template <typename T>
void l2_norm_forward(Cpu, T* y, T* norm, const T* x, const L2NormShape& shape) {
  using V = simd::Vec<T>;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t group = 0; group < shape.groups; ++group) {
      const int64_t at = row * shape.stride + group * shape.size;
      const T sum = simd::transform_sum<T>(
          shape.size, [](V v) { return v * v; }, x + at);
      T& inverse = norm[row * shape.groups + group];
      inverse = T(1) / std::sqrt(sum + static_cast<T>(shape.epsilon));
      const T factor = static_cast<T>(shape.scale) * inverse;
      simd::transform<T>(
          y + at, shape.size, [factor](V v) { return v * factor; }, x + at);
    }
  }
}

template <typename T>
void l2_norm_backward(Cpu, T* dx, const T* dy, const T* y, const T* norm, const L2NormShape& shape) {
  using V = simd::Vec<T>;
  const T scale = static_cast<T>(shape.scale);
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t group = 0; group < shape.groups; ++group) {
      const int64_t at = row * shape.stride + group * shape.size;
      // y = scale * x * n: dx = scale n (dy - y (dy . y) / scale^2).
      const T dot = simd::transform_sum<T>(
          shape.size, [](V a, V b) { return a * b; }, dy + at, y + at);
      const T factor = scale * norm[row * shape.groups + group], pull = dot / (scale * scale);
      simd::transform<T>(
          dx + at, shape.size, [=](V a, V b) { return factor * (a - b * pull); }, dy + at, y + at);
    }
  }
}

#define LONGHAUL_INSTANTIATE(T)                                                                                \
  template void gated_norm_forward<T>(Cpu, T*, T*, const T*, const T*, const T*, const GatedNormShape&);       \
  template void gated_norm_backward<T>(Cpu, T*, T*, int64_t, T*, bool, const T*, const T*, const T*, const T*, \
                                       const T*, const GatedNormShape&);                                       \
  template void l2_norm_forward<T>(Cpu, T*, T*, const T*, const L2NormShape&);                                 \
  template void l2_norm_backward<T>(Cpu, T*, const T*, const T*, const T*, const L2NormShape&)
LONGHAUL_INSTANTIATE(float);
LONGHAUL_INSTANTIATE(double);
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
