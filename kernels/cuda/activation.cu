// Pointwise activations (kernels/activation.h).
#include "kernels/activation.h"
#include "kernels/cuda/device.hpp"

namespace longhaul::kernels {
namespace cuda {

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;

template <typename T>
__global__ void bias_gelu_forward_kernel(T* y, const T* x, const T* bias, int64_t count, int64_t columns) {
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    const float u = to_float(x[i]) + (bias ? to_float(bias[i % columns]) : 0.0f);
    y[i] = from_float<T>(0.5f * u * (1.0f + tanhf(kGeluScale * (u + kGeluCubic * u * u * u))));
  }
}

template <typename T>
__global__ void bias_gelu_backward_kernel(T* dx, const T* dy, const T* x, const T* bias, int64_t count,
                                          int64_t columns) {
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    const float u = to_float(x[i]) + (bias ? to_float(bias[i % columns]) : 0.0f);
    const float t = tanhf(kGeluScale * (u + kGeluCubic * u * u * u));
    const float inner = kGeluScale * (1.0f + 3.0f * kGeluCubic * u * u);
    dx[i] = from_float<T>(to_float(dy[i]) * (0.5f * (1.0f + t) + 0.5f * u * (1.0f - t * t) * inner));
  }
}

template <typename T>
__global__ void swiglu_forward_kernel(T* y, const T* gate_up, int64_t count, int64_t columns) {
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    const T* pair = gate_up + (i / columns) * 2 * columns + i % columns;
    const float gate = to_float(pair[0]);
    y[i] = from_float<T>(gate / (1.0f + expf(-gate)) * to_float(pair[columns]));
  }
}

template <typename T>
__global__ void swiglu_backward_kernel(T* dgate_up, const T* dy, const T* gate_up, int64_t count, int64_t columns) {
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    const int64_t at = (i / columns) * 2 * columns + i % columns;
    const float gate = to_float(gate_up[at]);
    const float up = to_float(gate_up[at + columns]);
    const float gradient = to_float(dy[i]);
    const float sigmoid = 1.0f / (1.0f + expf(-gate));
    dgate_up[at] = from_float<T>(gradient * up * sigmoid * (1.0f + gate * (1.0f - sigmoid)));
    dgate_up[at + columns] = from_float<T>(gradient * gate * sigmoid);
  }
}

}  // namespace cuda

template <typename T>
void bias_gelu_forward(Cuda device, T* y, const T* x, const T* bias, int64_t rows, int64_t columns) {
  const int64_t count = rows * columns;
  if (count == 0) return;
  cuda::launch(cuda::bias_gelu_forward_kernel<T>, cuda::elementwise(device, count), y, x, bias, count, columns);
}

template <typename T>
void bias_gelu_backward(Cuda device, T* dx, const T* dy, const T* x, const T* bias, int64_t rows, int64_t columns) {
  const int64_t count = rows * columns;
  if (count == 0) return;
  cuda::launch(cuda::bias_gelu_backward_kernel<T>, cuda::elementwise(device, count), dx, dy, x, bias, count, columns);
}

template <typename T>
void swiglu_forward(Cuda device, T* y, const T* gate_up, int64_t rows, int64_t columns) {
  const int64_t count = rows * columns;
  if (count == 0) return;
  cuda::launch(cuda::swiglu_forward_kernel<T>, cuda::elementwise(device, count), y, gate_up, count, columns);
}

template <typename T>
void swiglu_backward(Cuda device, T* dgate_up, const T* dy, const T* gate_up, int64_t rows, int64_t columns) {
  const int64_t count = rows * columns;
  if (count == 0) return;
  cuda::launch(cuda::swiglu_backward_kernel<T>, cuda::elementwise(device, count), dgate_up, dy, gate_up, count,
               columns);
}

#define INSTANTIATE(T)                                                                           \
  template void bias_gelu_forward<T>(Cuda, T*, const T*, const T*, int64_t, int64_t);            \
  template void bias_gelu_backward<T>(Cuda, T*, const T*, const T*, const T*, int64_t, int64_t); \
  template void swiglu_forward<T>(Cuda, T*, const T*, int64_t, int64_t);                         \
  template void swiglu_backward<T>(Cuda, T*, const T*, const T*, int64_t, int64_t)
INSTANTIATE(float);
INSTANTIATE(bf16);

}  // namespace longhaul::kernels
