// RMSNorm over the last axis: y = w * x / sqrt(mean(x^2) + eps)  (Zhang & Sennrich 2019; models.md section 1).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// x, y [rows, columns]; weight [columns]; rstd [rows] is kept for the backward pass.
template <typename T>
void rms_norm_forward(Cpu, T* y, T* rstd, const T* x, const T* weight, int64_t rows, int64_t columns, double epsilon);

/// dx (+)= gradient of x (accumulate adds); dweight [columns] likewise with accumulate_parameters. The sums over rows
/// have one fixed order for any number of threads.
template <typename T>
void rms_norm_backward(Cpu, T* dx, bool accumulate, T* dweight, bool accumulate_parameters, const T* dy, const T* x,
                       const T* weight, const T* rstd, int64_t rows, int64_t columns);

/// Statistics and parameter gradients are always f32.
template <typename T>
void rms_norm_forward(Cuda, T* y, float* rstd, const T* x, const T* weight, int64_t rows, int64_t columns,
                      double epsilon);
template <typename T>
void rms_norm_backward(Cuda, T* dx, bool accumulate, float* dweight, bool accumulate_parameters, const T* dy,
                       const T* x, const T* weight, const float* rstd, int64_t rows, int64_t columns);

}  // namespace longhaul::kernels
