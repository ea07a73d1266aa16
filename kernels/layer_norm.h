// LayerNorm over the last axis: y = (x - mean) / sqrt(var + eps) * w + b  (Ba et al. 2016; models.md section 1).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// x, y [rows, columns]; weight, bias [columns]; mean, rstd [rows] are kept for the backward pass.
template <typename T>
void layer_norm_forward(Cpu, T* y, T* mean, T* rstd, const T* x, const T* weight, const T* bias, int64_t rows,
                        int64_t columns, double epsilon);

/// dx (+)= gradient of x; accumulate adds to dx instead of overwriting it. dweight, dbias [columns] likewise with
/// accumulate_parameters. The sums over rows have one fixed order for any number of threads.
template <typename T>
void layer_norm_backward(Cpu, T* dx, bool accumulate, T* dweight, T* dbias, bool accumulate_parameters, const T* dy,
                         const T* x, const T* weight, const T* mean, const T* rstd, int64_t rows, int64_t columns);

/// Statistics and parameter gradients are always f32.
template <typename T>
void layer_norm_forward(Cuda, T* y, float* mean, float* rstd, const T* x, const T* weight, const T* bias, int64_t rows,
                        int64_t columns, double epsilon);
template <typename T>
void layer_norm_backward(Cuda, T* dx, bool accumulate, float* dweight, float* dbias, bool accumulate_parameters,
                         const T* dy, const T* x, const T* weight, const float* mean, const float* rstd, int64_t rows,
                         int64_t columns);

}  // namespace longhaul::kernels
