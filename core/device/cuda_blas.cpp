#include "core/device/cuda_blas.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include "core/device/cuda_runtime.h"
#include "kernels/error.h"

namespace longhaul::cuda {

Blas::Blas(int index, int64_t workspace_bytes) : workspace_bytes_(workspace_bytes) {
  const DeviceScope scope(index);
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t status = cublasLtCreate(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw system_error("cublasLtCreate on cuda:{}: cuBLAS status {}", index, static_cast<int>(status));
  }
  handle_ = handle;
  if (workspace_bytes == 0) return;
  const cudaError_t allocated = cudaMalloc(&workspace_, static_cast<size_t>(workspace_bytes));
  if (allocated != cudaSuccess) cublasLtDestroy(handle);  // no destructor runs for a half-made object
  check(allocated, fmt::format("cudaMalloc of {} bytes on cuda:{}", workspace_bytes, index));
}

Blas::~Blas() {
  cudaFree(workspace_);
  cublasLtDestroy(static_cast<cublasLtHandle_t>(handle_));
}

}  // namespace longhaul::cuda
