// Sums over a thread block in one fixed order, without atomics.
#pragma once

#include "kernels/cuda/device.hpp"

namespace longhaul::kernels::cuda {

/// The sum of `value` over the 32 threads of a warp, in every thread.
template <typename T>
__device__ inline T warp_sum(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// The sum of `value` over the kThreads threads of the block, in every thread. `scratch` holds kThreads / 32 elements;
/// all threads must call, and may call again at once.
template <typename T>
__device__ inline T block_sum(T value, T* scratch) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  value = warp_sum(value);
  __syncthreads();  // the previous call's sums have been read
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  T total = scratch[0];
  for (int other = 1; other < kThreads / kWarp; ++other) total += scratch[other];
  return total;
}

constexpr int kColumnTile = 32;  // columns of one block
constexpr int kRowLanes = 32;    // threads that share a column: lane l adds rows l, l + 32, ...

/// One block of a column reduction: sums[c] of `term(row, column)` over all rows, for the kColumnTile columns of this
/// block (blockIdx.x); block is (kColumnTile, kRowLanes). The order is fixed by the number of rows alone. `term`
/// returns float.
template <typename Term>
__device__ inline void column_reduce(float* sums, bool accumulate, int64_t rows, int64_t columns,
                                     float (*tile)[kColumnTile + 1], Term term) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnTile + threadIdx.x;
  float sum = 0;
  if (column < columns) {
    for (int64_t row = threadIdx.y; row < rows; row += kRowLanes) sum += term(row, column);
  }
  __syncthreads();  // a previous reduction of this block has read the tile
  tile[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  for (int half = kRowLanes / 2; half > 0; half /= 2) {
    if (threadIdx.y < half) tile[threadIdx.y][threadIdx.x] += tile[threadIdx.y + half][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < columns)
    sums[column] = accumulate ? sums[column] + tile[0][threadIdx.x] : tile[0][threadIdx.x];
}

/// The launch that column_reduce expects.
inline LaunchConfig column_launch(const Cuda& device, int64_t columns) {
  return {dim3(static_cast<unsigned>((columns + kColumnTile - 1) / kColumnTile)), dim3(kColumnTile, kRowLanes), 0,
          device};
}

}  // namespace longhaul::kernels::cuda
