// Pointwise activations of the feed-forward layers.
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// y = gelu_tanh(x + bias); x, y [rows, columns], bias [columns] or null.
/// gelu_tanh(u) = 0.5 u (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3)))  (Hendrycks & Gimpel 2016, tanh form).
template <typename T>
void bias_gelu_forward(Cpu, T* y, const T* x, const T* bias, int64_t rows, int64_t columns);

/// dx = dy * gelu_tanh'(x + bias). dx may be dy (in place). The gradient of bias is the column sum of dx.
template <typename T>
void bias_gelu_backward(Cpu, T* dx, const T* dy, const T* x, const T* bias, int64_t rows, int64_t columns);

/// y = silu(gate) * up; gate_up [rows, 2 * columns] holds gate in its first half of each row and up in its second; y
/// [rows, columns]. (Shazeer 2020, SwiGLU.)
template <typename T>
void swiglu_forward(Cpu, T* y, const T* gate_up, int64_t rows, int64_t columns);

/// dgate_up [rows, 2 * columns] from dy [rows, columns]; dgate_up may be gate_up (in place).
template <typename T>
void swiglu_backward(Cpu, T* dgate_up, const T* dy, const T* gate_up, int64_t rows, int64_t columns);

template <typename T>
void bias_gelu_forward(Cuda, T* y, const T* x, const T* bias, int64_t rows, int64_t columns);
template <typename T>
void bias_gelu_backward(Cuda, T* dx, const T* dy, const T* x, const T* bias, int64_t rows, int64_t columns);
template <typename T>
void swiglu_forward(Cuda, T* y, const T* gate_up, int64_t rows, int64_t columns);
template <typename T>
void swiglu_backward(Cuda, T* dgate_up, const T* dy, const T* gate_up, int64_t rows, int64_t columns);

}  // namespace longhaul::kernels
