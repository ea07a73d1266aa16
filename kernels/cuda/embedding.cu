// Token and position embedding (kernels/embedding.h).
#include "kernels/cuda/device.hpp"
#include "kernels/embedding.h"

namespace longhaul::kernels {
namespace cuda {

template <typename T>
__global__ void embedding_forward_kernel(T* y, const int32_t* ids, const int32_t* position_ids, const T* tokens,
                                         const T* positions, int64_t count, int64_t columns) {
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    const int64_t row = i / columns;
    const int64_t column = i % columns;
    float value = to_float(tokens[ids[row] * columns + column]);
    if (positions) value += to_float(positions[position_ids[row] * columns + column]);
    y[i] = from_float<T>(value);
  }
}

/// Which of rows begin + 0 ... begin + kThreads - 1 (below end) carry `id`: bit l of masks[w] is row begin + 32 w + l.
__device__ inline void find_rows(uint32_t* masks, const int32_t* ids, int64_t begin, int64_t end, int32_t id) {
  const int64_t row = begin + threadIdx.x;
  const uint32_t mask = __ballot_sync(0xffffffffu, row < end && ids[row] == id);
  __syncthreads();  // everybody is done with the previous masks
  if (threadIdx.x % kWarp == 0) masks[threadIdx.x / kWarp] = mask;
  __syncthreads();
}

// One block per row. The block of an id's first row adds all rows of that id, in rising order; the others leave at
// once. So no two blocks touch the same table row, and no atomics are needed.
template <typename T>
__global__ void embedding_backward_kernel(float* dtable, const int32_t* ids, const T* dy, int64_t rows,
                                          int64_t columns) {
  CUDA_SHARED(uint32_t, masks, [kThreads / kWarp]);
  const int64_t first = blockIdx.x;
  const int32_t id = ids[first];
  for (int64_t begin = 0; begin < first; begin += kThreads) {
    find_rows(masks, ids, begin, first, id);
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
      if (masks[warp] != 0) return;  // the same answer in every thread
    }
  }
  for (int64_t begin = first; begin < rows; begin += kThreads) {
    find_rows(masks, ids, begin, rows, id);
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
      for (uint32_t left = masks[warp]; left != 0; left &= left - 1) {
        const int64_t row = begin + warp * kWarp + __ffs(static_cast<int>(left)) - 1;
        for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
          dtable[id * columns + c] += to_float(dy[row * columns + c]);
        }
      }
    }
  }
}

}  // namespace cuda

template <typename T>
void embedding_forward(Cuda device, T* y, const int32_t* ids, const int32_t* position_ids, const T* tokens,
                       const T* positions, int64_t rows, int64_t columns) {
  const int64_t count = rows * columns;
  if (count == 0) return;
  cuda::launch(cuda::embedding_forward_kernel<T>, cuda::elementwise(device, count), y, ids, position_ids, tokens,
               positions, count, columns);
}

template <typename T>
void embedding_backward(Cuda device, float* dtable, const int32_t* ids, const T* dy, int64_t rows, int64_t columns) {
  if (rows == 0) return;
  const cuda::LaunchConfig config{dim3(static_cast<unsigned>(rows)), dim3(cuda::kThreads), 0, device};
  cuda::launch(cuda::embedding_backward_kernel<T>, config, dtable, ids, dy, rows, columns);
}

#define INSTANTIATE(T)                                                                                                \
  template void embedding_forward<T>(Cuda, T*, const int32_t*, const int32_t*, const T*, const T*, int64_t, int64_t); \
  template void embedding_backward<T>(Cuda, float*, const int32_t*, const T*, int64_t, int64_t)
INSTANTIATE(float);
INSTANTIATE(bf16);

}  // namespace longhaul::kernels
