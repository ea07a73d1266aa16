// Caching allocator: freed blocks are kept by size class and handed out again, so that a training step allocates nothing
// from the system after the first. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor/device.h"

namespace longhaul {

struct MemoryUse {
  int64_t live_bytes = 0;    ///< handed out now
  int64_t peak_bytes = 0;    ///< largest live_bytes since the last reset_peak
  int64_t cached_bytes = 0;  ///< kept for reuse
};

namespace allocator {
std::byte* allocate(int64_t bytes, Device device);
void release(std::byte* data, int64_t bytes, Device device);
/// Tests: fill every block with NaN bytes (0xFF) when it is handed out and when it comes back.
void fill_with_nan(bool enabled);
MemoryUse use(Device device);
void reset_peak(Device device);
void release_cached(Device device);  ///< gives cached blocks back to the system
}  // namespace allocator

}  // namespace longhaul
