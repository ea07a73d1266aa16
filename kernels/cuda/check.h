// Turns return codes of CUDA and cuBLASLt into errors. Kept out of the .cu files, so that nvcc never sees the
// formatting library.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longhaul::kernels::cuda {

/// system_error naming the kernel, its grid and block unless status is cudaSuccess.
void check_launch(cudaError_t status, const void* kernel, dim3 grid, dim3 block, int64_t shared_bytes);
/// system_error naming the call and the sizes of the product unless status is 0 (CUBLAS_STATUS_SUCCESS).
void check_matmul(int status, const char* call, int64_t m, int64_t n, int64_t k);

}  // namespace longhaul::kernels::cuda
