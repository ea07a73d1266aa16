// Where a kernel runs. The first argument of every kernel; overloads on it select cpu/ or cuda/.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

/// The calling thread and its OpenMP team.
struct Cpu {};

/// An NVIDIA device; `stream` is a cudaStream_t (opaque here, so that no CUDA header is needed).
struct Cuda {
  void* stream = nullptr;
};

}  // namespace longhaul::kernels
