// A block of memory from the caching allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device/device.h"

namespace longhaul {

/// Owns `bytes` bytes on `device`, 64-byte aligned; gives them back to the allocator when the last user is gone.
class Storage {
 public:
  Storage(int64_t bytes, Device device);
  /// Memory owned by somebody else (a flat parameter buffer, a mapped file); `owner` keeps it alive.
  Storage(void* data, int64_t bytes, Device device, std::shared_ptr<void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  Device device_;
  std::shared_ptr<void> owner_;
  bool from_allocator_ = false;
};

}  // namespace longhaul
