#include "core/tensor/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "core/device/device_memory.h"
#include "kernels/error.h"

namespace longhaul::allocator {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kLargeBlock = 16ll << 20;  // from here on classes are multiples of kLargeStep
constexpr int64_t kLargeStep = 2ll << 20;

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// Cached blocks of one device and what is in use on it.
class Pool {
 public:
  explicit Pool(Device device) : device_(device) {}

  std::byte* allocate(int64_t bytes) {
    const int64_t size = block_bytes(bytes);
    std::byte* block = nullptr;
    bool fill = false;
    {
      const std::lock_guard lock(mutex_);
      fill = fill_with_nan_;
      std::vector<std::byte*>& free_blocks = free_[size];
      if (!free_blocks.empty()) {
        block = free_blocks.back();
        free_blocks.pop_back();
        use_.cached_bytes -= size;
      } else {
        block = from_system(size);
      }
      use_.live_bytes += size;
      use_.peak_bytes = std::max(use_.peak_bytes, use_.live_bytes);
    }
    if (fill) fill_bytes(block, size);
    return block;
  }

  void release(std::byte* block, int64_t bytes) {
    const int64_t size = block_bytes(bytes);
    const std::lock_guard lock(mutex_);
    if (fill_with_nan_) fill_bytes(block, size);
    free_[size].push_back(block);
    use_.live_bytes -= size;
    use_.cached_bytes += size;
  }

  void release_cached() {
    const std::lock_guard lock(mutex_);
    give_back_cached();
  }

  void set_fill_with_nan(bool enabled) {
    const std::lock_guard lock(mutex_);
    fill_with_nan_ = enabled;
  }

  MemoryUse use() {
    const std::lock_guard lock(mutex_);
    return use_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    use_.peak_bytes = use_.live_bytes;
  }

 private:
  /// A block the cache does not have. When the machine refuses, the cache may hold enough in blocks of other sizes.
  std::byte* from_system(int64_t size) {
    ++use_.system_allocations;
    if (!device_.is_cpu()) {
      try {
        return device::allocate(size, device_);
      } catch (const Error& error) {
        if (error.fault() != Fault::kSystem || use_.cached_bytes == 0) throw;
        give_back_cached();
        return device::allocate(size, device_);
      }
    }
    void* block = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
    if (block == nullptr) {
      give_back_cached();
      block = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
    }
    if (block == nullptr) {
      throw system_error("allocator: no memory for {} bytes on the CPU with {} in use; use a smaller batch or model",
                         size, use_.live_bytes);
    }
    return static_cast<std::byte*>(block);
  }

  void fill_bytes(std::byte* block, int64_t size) {
    if (device_.is_cpu()) {
      std::memset(block, 0xFF, static_cast<size_t>(size));
    } else {
      device::fill(block, device_, 0xFF, size);
    }
  }

  void give_back_cached() {
    for (auto& [size, blocks] : free_) {
      for (std::byte* block : blocks) {
        if (device_.is_cpu()) {
          std::free(block);
        } else {
          device::release(block, device_);
        }
      }
    }
    free_.clear();
    use_.cached_bytes = 0;
  }

  const Device device_;
  std::mutex mutex_;
  std::map<int64_t, std::vector<std::byte*>> free_;
  MemoryUse use_;
  bool fill_with_nan_ = false;
};

/// One pool per device. Never destroyed: storages held by static objects may outlive main().
Pool& pool(Device device) {
  static Pool& cpu = *new Pool({});
  if (device.is_cpu()) return cpu;
  static std::mutex mutex;
  static std::map<int, Pool>& cuda = *new std::map<int, Pool>;
  const std::lock_guard lock(mutex);
  return cuda.try_emplace(device.index, device).first->second;
}

}  // namespace

int64_t block_bytes(int64_t bytes) {
  if (bytes < 0) throw internal_error("allocator: {} bytes requested", bytes);
  if (bytes <= 8 * kAlignment) return std::max(kAlignment, round_up(bytes, kAlignment));
  if (bytes >= kLargeBlock) return round_up(bytes, kLargeStep);
  const int64_t octave = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  return round_up(bytes, octave / 8);
}

std::byte* allocate(int64_t bytes, Device device) { return pool(device).allocate(bytes); }

void release(std::byte* data, int64_t bytes, Device device) { pool(device).release(data, bytes); }

void fill_with_nan(bool enabled) { pool({}).set_fill_with_nan(enabled); }

MemoryUse use(Device device) { return pool(device).use(); }

void reset_peak(Device device) { pool(device).reset_peak(); }

void release_cached(Device device) { pool(device).release_cached(); }

}  // namespace longhaul::allocator
