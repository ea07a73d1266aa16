// Caching allocator: freed blocks are kept by size class and handed out again, so that a training step allocates
// nothing from the system after the first. Thread-safe. This cache is the one piece of process-wide mutable state of
// the project: it belongs to the process as the heap does, and no result depends on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/device.h"

namespace longhaul {

/// Exact counts, in bytes of whole blocks (a request rounded up by allocator::block_bytes).
struct MemoryUse {
  int64_t live_bytes = 0;          ///< handed out now
  int64_t peak_bytes = 0;          ///< largest live_bytes since the last reset_peak
  int64_t cached_bytes = 0;        ///< kept for reuse
  int64_t system_allocations = 0;  ///< blocks asked from the system since the program started
};

namespace allocator {
/// Size class of a request: multiples of 64 bytes, eight classes per doubling up to 16 MiB, multiples of 2 MiB above.
int64_t block_bytes(int64_t bytes);
/// 64-byte aligned memory with undefined content. system_error naming the size when the machine has no more.
std::byte* allocate(int64_t bytes, Device device);
/// `bytes` as given to allocate().
void release(std::byte* data, int64_t bytes, Device device);
/// Tests: fill every block with NaN bytes (0xFF) when it is handed out and when it comes back.
void fill_with_nan(bool enabled);
MemoryUse use(Device device);
void reset_peak(Device device);
void release_cached(Device device);  ///< gives cached blocks back to the system
}  // namespace allocator

}  // namespace longhaul
