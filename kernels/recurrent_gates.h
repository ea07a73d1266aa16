// The scalar gates of the recurrent mixers, one per token and head.
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// Mamba2 (models.md 3.3): y = clamp(softplus(x + bias), low, high); x rows x_stride apart, y dense [rows, heads].
template <typename T>
void softplus_gate_forward(Cpu, T* y, const T* x, int64_t x_stride, const T* bias, int64_t rows, int64_t heads,
                           double low, double high);
/// dx rows dx_stride apart, overwritten; dbias overwritten, or added to with accumulate. No gradient where clamped.
template <typename T>
void softplus_gate_backward(Cpu, T* dx, int64_t dx_stride, T* dbias, bool accumulate, const T* dy, const T* x,
                            int64_t x_stride, const T* bias, int64_t rows, int64_t heads, double low, double high);

/// Gated DeltaNet (models.md 4.3): log_alpha = -exp(a_log) softplus(a + dt_bias), beta = sigmoid(b). a and b have rows
/// `stride` apart, their gradients too; log_alpha, beta and theirs are dense [rows, heads].
template <typename T>
void delta_gates_forward(Cpu, T* log_alpha, T* beta, const T* a, const T* b, int64_t stride, const T* a_log,
                         const T* dt_bias, int64_t rows, int64_t heads);
template <typename T>
void delta_gates_backward(Cpu, T* da, T* db, T* da_log, T* ddt_bias, bool accumulate, const T* dlog_alpha,
                          const T* dbeta, const T* a, const T* b, int64_t stride, const T* a_log, const T* dt_bias,
                          int64_t rows, int64_t heads);

}  // namespace longhaul::kernels
