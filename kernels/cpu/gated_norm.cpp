#include "kernels/gated_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/simd.h"

namespace longhaul::kernels {
namespace {

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
  using V = simd::Vec<T>;
  const T dot = simd::transform_sum<T>(
      shape.size, [](V d, V w, V x, V g) { return d * w * x * silu<T>(g); }, dy, in.weight, in.x, in.gate);
  const T pull = r * r * r * dot / static_cast<T>(shape.size);
  const bool gate_first = shape.gate_first;
  simd::transform<T>(
      dgate, shape.size,
      [=](V d, V w, V x, V g) {
        const V sigmoid = simd::sigmoid(g), slope = sigmoid * (T(1) + g * (T(1) - sigmoid));
        const V normed = gate_first ? r * (d * w) - pull * x * (g * sigmoid) : r * (d * w);
        return normed * x * slope;
      },
      dy, in.weight, in.x, in.gate);
  simd::transform<T>(
      dx, shape.size,
      [=](V d, V w, V x, V g) {
        const V s = silu<T>(g);
        return gate_first ? (r * (d * w) - pull * x * s) * s : r * (d * w) * s - pull * x;
      },
      dy, in.weight, in.x, in.gate);
}

/// Gradient of the weights [begin, end) of one group, or of all groups with a shared weight. Rows are taken in order.
template <typename T>
void weight_gradient(T* dweight, const T* dy, const T* x, const T* gate, const T* rstd, const GatedNormShape& shape,
                     int64_t only_group, int64_t begin, int64_t end) {
  using V = simd::Vec<T>;
  const int64_t first = shape.shared_weight ? 0 : only_group, last = shape.shared_weight ? shape.groups : first + 1;
  T* out = dweight + (shape.shared_weight ? 0 : first * shape.size) + begin;
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t group = first; group < last; ++group) {
      const int64_t column = group * shape.size + begin;
      const T r = rstd[row * shape.groups + group];
      simd::transform<T>(
          out, end - begin, [r](V sum, V d, V x, V g) { return sum + d * r * (x * silu<T>(g)); }, out,
          dy + row * shape.columns() + column, x + row * shape.x_stride + column,
          gate + row * shape.gate_stride + column);
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
  const int64_t blocks = (shape.size + kBlock - 1) / kBlock;
  if (!accumulate_parameters) std::fill_n(dweight, weights, T(0));
#pragma omp parallel for schedule(static)
  for (int64_t unit = 0; unit < weights / shape.size * blocks; ++unit) {
    const int64_t begin = unit % blocks * kBlock;
    weight_gradient(dweight, dy, x, gate, rstd, shape, unit / blocks, begin, std::min(begin + kBlock, shape.size));
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
