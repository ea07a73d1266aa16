#include "kernels/cuda/check.h"

#include "kernels/error.h"

namespace longhaul::kernels::cuda {

void check_launch(cudaError_t status, const void* kernel, dim3 grid, dim3 block, int64_t shared_bytes) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  const char* name = nullptr;
  if (cudaFuncGetName(&name, kernel) != cudaSuccess) cudaGetLastError();
  throw system_error("launch of {} on grid {}x{}x{}, block {}x{}x{}, {} bytes of shared memory: {}",
                     name ? name : "a kernel", grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes,
                     cudaGetErrorString(status));
}

void check_matmul(int status, const char* call, int64_t m, int64_t n, int64_t k) {
  if (status == 0) return;
  throw system_error("{} of [{}, {}] x [{}, {}]: cuBLAS status {}", call, m, k, k, n, status);
}

}  // namespace longhaul::kernels::cuda
