// Small element-by-element and reduction kernels (kernels/pointwise.h).
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/pointwise.h"

namespace longhaul::kernels {
namespace cuda {

template <typename T>
__global__ void fill_kernel(T* y, T value, int64_t count) {
  for (int64_t i = first_element(); i < count; i += element_stride()) y[i] = value;
}

template <typename T>
__global__ void add_kernel(T* y, const T* a, const T* b, int64_t count) {
  for (int64_t i = first_element(); i < count; i += element_stride())
    y[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
}

template <typename T>
__global__ void scale_kernel(T* y, float factor, int64_t count) {
  for (int64_t i = first_element(); i < count; i += element_stride()) y[i] = from_float<T>(to_float(y[i]) * factor);
}

template <typename T>
__global__ void add_bias_kernel(T* y, const T* bias, int64_t count, int64_t columns) {
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    y[i] = from_float<T>(to_float(y[i]) + to_float(bias[i % columns]));
  }
}

template <typename T>
__global__ void column_sum_kernel(float* dbias, bool accumulate, const T* dy, int64_t rows, int64_t columns) {
  CUDA_SHARED(float, tile, [kRowLanes][kColumnTile + 1]);
  column_reduce(dbias, accumulate, rows, columns, tile,
                [&](int64_t row, int64_t column) { return to_float(dy[row * columns + column]); });
}

template <typename To, typename From>
__global__ void convert_kernel(To* out, const From* in, int64_t count) {
  for (int64_t i = first_element(); i < count; i += element_stride()) out[i] = from_float<To>(to_float(in[i]));
}

constexpr int64_t kSumBlock = 4096;

template <typename T>
__global__ void block_squares_kernel(double* block_sums, const T* x, int64_t count) {
  CUDA_SHARED(double, scratch, [kThreads / kWarp]);
  const int64_t begin = blockIdx.x * kSumBlock;
  const int64_t end = begin + kSumBlock < count ? begin + kSumBlock : count;
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const double value = to_float(x[i]);
    sum += value * value;
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}

__global__ void sum_blocks_kernel(double* result, const double* block_sums, int64_t blocks) {
  CUDA_SHARED(double, scratch, [kThreads / kWarp]);
  double sum = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += kThreads) sum += block_sums[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *result = sum;
}

__global__ void set_flag_kernel(int32_t* flag) { *flag = 1; }

template <typename T>
__global__ void clear_flag_if_not_finite_kernel(int32_t* flag, const T* x, int64_t count) {
  // Several threads may write the same 0: the order does not matter.
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    if (!isfinite(to_float(x[i]))) *flag = 0;
  }
}

template <typename T>
__global__ void lerp_average_kernel(T* average, const T* x, float decay, int64_t count) {
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    average[i] = from_float<T>(decay * to_float(average[i]) + (1.0f - decay) * to_float(x[i]));
  }
}

template <typename T>
__global__ void dropout_kernel(T* y, const T* x, float probability, RandomKey key, const int64_t* sample_ids,
                               int64_t count, int64_t sample_elements) {
  const float kept_scale = 1.0f / (1.0f - probability);
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    const int64_t element = i % sample_elements;
    uint32_t draws[4];
    random_bits4(key, static_cast<uint64_t>(sample_ids[i / sample_elements]), static_cast<uint64_t>(element / 4),
                 draws);
    const bool kept = uniform_from_bits(draws[element % 4]) >= probability;
    y[i] = from_float<T>(kept ? to_float(x[i]) * kept_scale : 0.0f);
  }
}

}  // namespace cuda

template <typename T>
void fill(Cuda device, T* y, T value, int64_t count) {
  if (count == 0) return;
  cuda::launch(cuda::fill_kernel<T>, cuda::elementwise(device, count), y, value, count);
}

template <typename T>
void add(Cuda device, T* y, const T* a, const T* b, int64_t count) {
  if (count == 0) return;
  cuda::launch(cuda::add_kernel<T>, cuda::elementwise(device, count), y, a, b, count);
}

template <typename T>
void scale(Cuda device, T* y, float factor, int64_t count) {
  if (count == 0) return;
  cuda::launch(cuda::scale_kernel<T>, cuda::elementwise(device, count), y, factor, count);
}

template <typename T>
void add_bias(Cuda device, T* y, const T* bias, int64_t rows, int64_t columns) {
  const int64_t count = rows * columns;
  if (count == 0) return;
  cuda::launch(cuda::add_bias_kernel<T>, cuda::elementwise(device, count), y, bias, count, columns);
}

template <typename T>
void column_sum(Cuda device, float* dbias, bool accumulate, const T* dy, int64_t rows, int64_t columns) {
  if (columns == 0) return;
  cuda::launch(cuda::column_sum_kernel<T>, cuda::column_launch(device, columns), dbias, accumulate, dy, rows, columns);
}

template <typename To, typename From>
void convert(Cuda device, To* out, const From* in, int64_t count) {
  if (count == 0) return;
  cuda::launch(cuda::convert_kernel<To, From>, cuda::elementwise(device, count), out, in, count);
}

template <typename T>
void sum_of_squares(Cuda device, double* result, double* block_sums, const T* x, int64_t count) {
  const int64_t blocks = (count + cuda::kSumBlock - 1) / cuda::kSumBlock;
  if (blocks > 0) {
    const cuda::LaunchConfig config{dim3(static_cast<unsigned>(blocks)), dim3(cuda::kThreads), 0, device};
    cuda::launch(cuda::block_squares_kernel<T>, config, block_sums, x, count);
  }
  cuda::launch(cuda::sum_blocks_kernel, {dim3(1), dim3(cuda::kThreads), 0, device}, result, block_sums, blocks);
}

template <typename T>
void all_finite(Cuda device, int32_t* result, const T* x, int64_t count) {
  cuda::launch(cuda::set_flag_kernel, {dim3(1), dim3(1), 0, device}, result);
  if (count == 0) return;
  cuda::launch(cuda::clear_flag_if_not_finite_kernel<T>, cuda::elementwise(device, count), result, x, count);
}

template <typename T>
void lerp_average(Cuda device, T* average, const T* x, double decay, int64_t count) {
  if (count == 0) return;
  cuda::launch(cuda::lerp_average_kernel<T>, cuda::elementwise(device, count), average, x, static_cast<float>(decay),
               count);
}

template <typename T>
void dropout(Cuda device, T* y, const T* x, double probability, RandomKey key, const int64_t* sample_ids, int64_t rows,
             int64_t rows_per_sample, int64_t columns) {
  const int64_t count = rows * columns;
  if (count == 0) return;
  cuda::launch(cuda::dropout_kernel<T>, cuda::elementwise(device, count), y, x, static_cast<float>(probability), key,
               sample_ids, count, rows_per_sample * columns);
}

#define INSTANTIATE(T)                                                         \
  template void fill<T>(Cuda, T*, T, int64_t);                                 \
  template void add<T>(Cuda, T*, const T*, const T*, int64_t);                 \
  template void scale<T>(Cuda, T*, float, int64_t);                            \
  template void add_bias<T>(Cuda, T*, const T*, int64_t, int64_t);             \
  template void column_sum<T>(Cuda, float*, bool, const T*, int64_t, int64_t); \
  template void sum_of_squares<T>(Cuda, double*, double*, const T*, int64_t);  \
  template void all_finite<T>(Cuda, int32_t*, const T*, int64_t);              \
  template void lerp_average<T>(Cuda, T*, const T*, double, int64_t);          \
  template void dropout<T>(Cuda, T*, const T*, double, RandomKey, const int64_t*, int64_t, int64_t, int64_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
template void convert<bf16, float>(Cuda, bf16*, const float*, int64_t);
template void convert<float, bf16>(Cuda, float*, const bf16*, int64_t);
template void convert<float, float>(Cuda, float*, const float*, int64_t);

}  // namespace longhaul::kernels
