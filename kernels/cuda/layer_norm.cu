// LayerNorm (kernels/layer_norm.h): one block per row; parameter gradients by column, in an order fixed by the row
// count.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/layer_norm.h"

namespace longhaul::kernels {
namespace cuda {

template <typename T>
__global__ void layer_norm_forward_kernel(T* y, float* mean, float* rstd, const T* x, const T* weight, const T* bias,
                                          int64_t columns, float epsilon) {
  CUDA_SHARED(float, scratch, [kThreads / kWarp]);
  const int64_t row = blockIdx.x;
  const T* in = x + row * columns;
  float sum = 0;
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) sum += to_float(in[c]);
  const float row_mean = block_sum(sum, scratch) / static_cast<float>(columns);
  float squares = 0;  // of the deviations: E[x^2] - mean^2 would cancel
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    const float deviation = to_float(in[c]) - row_mean;
    squares += deviation * deviation;
  }
  const float row_rstd = 1.0f / sqrtf(block_sum(squares, scratch) / static_cast<float>(columns) + epsilon);
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    y[row * columns + c] =
        from_float<T>((to_float(in[c]) - row_mean) * row_rstd * to_float(weight[c]) + to_float(bias[c]));
  }
  if (threadIdx.x == 0) {
    mean[row] = row_mean;
    rstd[row] = row_rstd;
  }
}

// dx = rstd (g - mean(g) - xhat mean(g xhat)),  g = dy w,  xhat = (x - mean) rstd
template <typename T>
__global__ void layer_norm_input_gradient_kernel(T* dx, bool accumulate, const T* dy, const T* x, const T* weight,
                                                 const float* mean, const float* rstd, int64_t columns) {
  CUDA_SHARED(float, scratch, [kThreads / kWarp]);
  const int64_t row = blockIdx.x;
  const int64_t base = row * columns;
  float sum = 0, projected = 0;
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    const float gradient = to_float(dy[base + c]) * to_float(weight[c]);
    sum += gradient;
    projected += gradient * (to_float(x[base + c]) - mean[row]) * rstd[row];
  }
  const float mean_gradient = block_sum(sum, scratch) / static_cast<float>(columns);
  const float mean_projected = block_sum(projected, scratch) / static_cast<float>(columns);
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    const float gradient = to_float(dy[base + c]) * to_float(weight[c]);
    const float normalised = (to_float(x[base + c]) - mean[row]) * rstd[row];
    const float result = rstd[row] * (gradient - mean_gradient - normalised * mean_projected);
    dx[base + c] = from_float<T>(accumulate ? to_float(dx[base + c]) + result : result);
  }
}

template <typename T>
__global__ void layer_norm_parameter_gradient_kernel(float* dweight, float* dbias, bool accumulate, const T* dy,
                                                     const T* x, const float* mean, const float* rstd, int64_t rows,
                                                     int64_t columns) {
  CUDA_SHARED(float, tile, [kRowLanes][kColumnTile + 1]);
  column_reduce(dweight, accumulate, rows, columns, tile, [&](int64_t row, int64_t column) {
    const int64_t i = row * columns + column;
    return to_float(dy[i]) * (to_float(x[i]) - mean[row]) * rstd[row];
  });
  column_reduce(dbias, accumulate, rows, columns, tile,
                [&](int64_t row, int64_t column) { return to_float(dy[row * columns + column]); });
}

}  // namespace cuda

template <typename T>
void layer_norm_forward(Cuda device, T* y, float* mean, float* rstd, const T* x, const T* weight, const T* bias,
                        int64_t rows, int64_t columns, double epsilon) {
  if (rows == 0) return;
  const cuda::LaunchConfig config{dim3(static_cast<unsigned>(rows)), dim3(cuda::kThreads), 0, device};
  cuda::launch(cuda::layer_norm_forward_kernel<T>, config, y, mean, rstd, x, weight, bias, columns,
               static_cast<float>(epsilon));
}

template <typename T>
void layer_norm_backward(Cuda device, T* dx, bool accumulate, float* dweight, float* dbias, bool accumulate_parameters,
                         const T* dy, const T* x, const T* weight, const float* mean, const float* rstd, int64_t rows,
                         int64_t columns) {
  if (columns == 0) return;
  // Parameter gradients first: they read dy, which dx may overwrite.
  cuda::launch(cuda::layer_norm_parameter_gradient_kernel<T>, cuda::column_launch(device, columns), dweight, dbias,
               accumulate_parameters, dy, x, mean, rstd, rows, columns);
  if (rows == 0) return;
  const cuda::LaunchConfig config{dim3(static_cast<unsigned>(rows)), dim3(cuda::kThreads), 0, device};
  cuda::launch(cuda::layer_norm_input_gradient_kernel<T>, config, dx, accumulate, dy, x, weight, mean, rstd, columns);
}

#define INSTANTIATE(T)                                                                                          \
  template void layer_norm_forward<T>(Cuda, T*, float*, float*, const T*, const T*, const T*, int64_t, int64_t, \
                                      double);                                                                  \
  template void layer_norm_backward<T>(Cuda, T*, bool, float*, float*, bool, const T*, const T*, const T*,      \
                                       const float*, const float*, int64_t, int64_t)
INSTANTIATE(float);
INSTANTIATE(bf16);

}  // namespace longhaul::kernels
