// The cuBLASLt handle of one device. A program that makes none needs no cuBLASLt at run time (its library is half a
// gigabyte and takes a quarter of a second to load), which is why the device runtime does not hold one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device.h"

namespace longhaul::cuda {

/// Owns the handle and a workspace that every product on one stream may use. Products on another stream need another
/// one.
class Blas {
 public:
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // what NVIDIA advises for Hopper

  explicit Blas(int index, int64_t workspace_bytes = kWorkspaceBytes);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// The argument for kernels whose work is queued on `stream`, which belongs to the same device.
  kernels::Cuda on(cudaStream_t stream) const { return {stream, handle_, workspace_, workspace_bytes_}; }

 private:
  void* handle_ = nullptr;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_;
};

}  // namespace longhaul::cuda
