// Cuts one block of scratch memory into aligned arrays. Carving null memory only measures.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longhaul::kernels {

class WorkspaceCarver {
 public:
  explicit WorkspaceCarver(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <typename T>
  T* take(int64_t count) {
    T* array = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  int64_t bytes() const { return used_; }

 private:
  static constexpr int64_t kAlignment = 64;
  std::byte* memory_;
  int64_t used_ = 0;
};

}  // namespace longhaul::kernels
