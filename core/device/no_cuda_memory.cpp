// Implements core/device/device_memory.h in a build without CUDA: there is only the CPU, and everything else is
// refused.
#include <cstring>

#include "core/device/device_memory.h"
#include "kernels/error.h"

namespace longhaul::device {
namespace {

void require_cpu(Device device) {
  if (device.is_cpu()) return;
  throw user_error("device {}: this program was built without CUDA; choose device cpu, or build with the preset cuda",
                   device.name());
}

}  // namespace

int cuda_device_count() { return 0; }

std::byte* allocate(int64_t, Device device) {
  require_cpu(device);
  throw internal_error("device memory: {} is not a CUDA device", device.name());
}

void release(std::byte*, Device device) {
  throw internal_error("device memory: nothing on {} can have been allocated", device.name());
}

void copy(void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  require_cpu(to_device);
  require_cpu(from_device);
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void fill(void* data, Device device, int value, int64_t bytes) {
  require_cpu(device);
  if (bytes > 0) std::memset(data, value, static_cast<size_t>(bytes));
}

void* stream(Device device) {
  require_cpu(device);
  throw internal_error("device memory: {} has no stream", device.name());
}

void synchronize(Device device) { require_cpu(device); }

}  // namespace longhaul::device
