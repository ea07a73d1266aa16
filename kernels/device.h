// Where a kernel runs. The first argument of every kernel; overloads on it select cpu/ or cuda/.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

/// The calling thread and its OpenMP team.
struct Cpu {};

/// An NVIDIA device: where a kernel queues its work. The handles are opaque here, so that no CUDA header is needed;
/// core/device makes them (device::queue). T of a Cuda kernel is float or bf16; arithmetic is in float.
struct Cuda {
  void* stream = nullptr;       ///< cudaStream_t
  void* blas_handle = nullptr;  ///< cublasLtHandle_t; only matmul needs it
  void* workspace = nullptr;    ///< device memory matmul may scratch in, 256-byte aligned; may be null
  int64_t workspace_bytes = 0;
};

}  // namespace longhaul::kernels
