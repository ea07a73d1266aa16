// What every .cu file includes. Kernels are plain CUDA except for launches and shared memory, which go through
// launch(), CUDA_SHARED and CUDA_DYNAMIC_SHARED, so that the same source can also be compiled for the CPU by other
// definitions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/cuda/check.h"
#include "kernels/device.h"

/// CUDA_SHARED(float, tile, [16][64]): an array of the thread block.
#define CUDA_SHARED(type, name, ...) __shared__ __align__(16) type name __VA_ARGS__
/// The thread block's array whose bytes the launch gives.
#define CUDA_DYNAMIC_SHARED(type, name)                             \
  extern __shared__ __align__(1024) unsigned char dynamic_shared[]; \
  type* name = reinterpret_cast<type*>(dynamic_shared)

namespace longhaul::kernels::cuda {

constexpr int kWarp = 32;
constexpr int kThreads = 256;  // per block, where nothing speaks for another number

struct LaunchConfig {
  dim3 grid;
  dim3 block;
  int64_t shared_bytes;
  Cuda device;
};

/// Queues kernel(arguments...) and checks that it was accepted.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchConfig& config, Arguments... arguments) {
  const void* function = reinterpret_cast<const void*>(kernel);
  if (config.shared_bytes > 48 * 1024) {
    check_launch(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(config.shared_bytes)),
                 function, config.grid, config.block, config.shared_bytes);
  }
  cudaLaunchConfig_t launch_config{};
  launch_config.gridDim = config.grid;
  launch_config.blockDim = config.block;
  launch_config.dynamicSmemBytes = static_cast<size_t>(config.shared_bytes);
  launch_config.stream = static_cast<cudaStream_t>(config.device.stream);
  check_launch(cudaLaunchKernelEx(&launch_config, kernel, static_cast<Parameters>(arguments)...), function, config.grid,
               config.block, config.shared_bytes);
}

/// Enough blocks for `count` threads; kernels loop with a stride of the whole grid, so fewer would also do.
inline LaunchConfig elementwise(const Cuda& device, int64_t count) {
  constexpr int64_t kMostBlocks = 1 << 20;
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return {dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks)), dim3(kThreads), 0, device};
}

/// First element of this thread, and the step to its next one, in an elementwise kernel.
__device__ inline int64_t first_element() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t element_stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(bf16 value) { return __uint_as_float(static_cast<uint32_t>(value.bits) << 16); }

template <typename T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline bf16 from_float<bf16>(float value) {
  bf16 result;
  result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
  return result;
}

}  // namespace longhaul::kernels::cuda
