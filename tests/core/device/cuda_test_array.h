// What the CUDA tests share: arrays that live on the first device, and the skip where there is none.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "core/device/device_memory.h"

#define SKIP_WITHOUT_CUDA() \
  if (longhaul::device::cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device here"

namespace longhaul::test {

inline constexpr Device kFirstCuda{Device::Kind::cuda, 0};

/// `values` on the device; host() copies them back.
template <typename T>
class CudaArray {
 public:
  explicit CudaArray(const std::vector<T>& values)
      : count_(values.size()), data_(reinterpret_cast<T*>(device::allocate(bytes() + 1, kFirstCuda))) {
    device::copy(data_, kFirstCuda, values.data(), Device{}, bytes());
  }
  ~CudaArray() { device::release(reinterpret_cast<std::byte*>(data_), kFirstCuda); }
  CudaArray(const CudaArray&) = delete;
  CudaArray& operator=(const CudaArray&) = delete;

  T* data() { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    device::copy(values.data(), Device{}, data_, kFirstCuda, bytes());
    return values;
  }

 private:
  int64_t bytes() const { return static_cast<int64_t>(count_ * sizeof(T)); }
  size_t count_;
  T* data_;
};

}  // namespace longhaul::test
