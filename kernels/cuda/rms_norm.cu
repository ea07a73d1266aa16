// RMSNorm (kernels/rms_norm.h): one block per row; the parameter gradient by column, in an order fixed by the row
// count.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/rms_norm.h"

namespace longhaul::kernels {
namespace cuda {

template <typename T>
__global__ void rms_norm_forward_kernel(T* y, float* rstd, const T* x, const T* weight, int64_t columns,
                                        float epsilon) {
  CUDA_SHARED(float, scratch, [kThreads / kWarp]);
  const int64_t row = blockIdx.x;
  const int64_t base = row * columns;
  float squares = 0;
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) squares += to_float(x[base + c]) * to_float(x[base + c]);
  const float row_rstd = 1.0f / sqrtf(block_sum(squares, scratch) / static_cast<float>(columns) + epsilon);
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    y[base + c] = from_float<T>(to_float(x[base + c]) * row_rstd * to_float(weight[c]));
  }
  if (threadIdx.x == 0) rstd[row] = row_rstd;
}

// dx = rstd (g - xhat mean(g xhat)),  g = dy w,  xhat = x rstd
template <typename T>
__global__ void rms_norm_input_gradient_kernel(T* dx, bool accumulate, const T* dy, const T* x, const T* weight,
                                               const float* rstd, int64_t columns) {
  CUDA_SHARED(float, scratch, [kThreads / kWarp]);
  const int64_t row = blockIdx.x;
  const int64_t base = row * columns;
  float projected = 0;
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    projected += to_float(dy[base + c]) * to_float(weight[c]) * to_float(x[base + c]) * rstd[row];
  }
  const float mean_projected = block_sum(projected, scratch) / static_cast<float>(columns);
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    const float gradient = to_float(dy[base + c]) * to_float(weight[c]);
    const float result = rstd[row] * (gradient - to_float(x[base + c]) * rstd[row] * mean_projected);
    dx[base + c] = from_float<T>(accumulate ? to_float(dx[base + c]) + result : result);
  }
}

template <typename T>
__global__ void rms_norm_parameter_gradient_kernel(float* dweight, bool accumulate, const T* dy, const T* x,
                                                   const float* rstd, int64_t rows, int64_t columns) {
  CUDA_SHARED(float, tile, [kRowLanes][kColumnTile + 1]);
  column_reduce(dweight, accumulate, rows, columns, tile, [&](int64_t row, int64_t column) {
    const int64_t i = row * columns + column;
    return to_float(dy[i]) * to_float(x[i]) * rstd[row];
  });
}

}  // namespace cuda

template <typename T>
void rms_norm_forward(Cuda device, T* y, float* rstd, const T* x, const T* weight, int64_t rows, int64_t columns,
                      double epsilon) {
  if (rows == 0) return;
  const cuda::LaunchConfig config{dim3(static_cast<unsigned>(rows)), dim3(cuda::kThreads), 0, device};
  cuda::launch(cuda::rms_norm_forward_kernel<T>, config, y, rstd, x, weight, columns, static_cast<float>(epsilon));
}

template <typename T>
void rms_norm_backward(Cuda device, T* dx, bool accumulate, float* dweight, bool accumulate_parameters, const T* dy,
                       const T* x, const T* weight, const float* rstd, int64_t rows, int64_t columns) {
  if (columns == 0) return;
  // The parameter gradient first: it reads dy, which dx may overwrite.
  cuda::launch(cuda::rms_norm_parameter_gradient_kernel<T>, cuda::column_launch(device, columns), dweight,
               accumulate_parameters, dy, x, rstd, rows, columns);
  if (rows == 0) return;
  const cuda::LaunchConfig config{dim3(static_cast<unsigned>(rows)), dim3(cuda::kThreads), 0, device};
  cuda::launch(cuda::rms_norm_input_gradient_kernel<T>, config, dx, accumulate, dy, x, weight, rstd, columns);
}

#define INSTANTIATE(T)                                                                                         \
  template void rms_norm_forward<T>(Cuda, T*, float*, const T*, const T*, int64_t, int64_t, double);           \
  template void rms_norm_backward<T>(Cuda, T*, bool, float*, bool, const T*, const T*, const T*, const float*, \
                                     int64_t, int64_t)
INSTANTIATE(float);
INSTANTIATE(bf16);

}  // namespace longhaul::kernels
