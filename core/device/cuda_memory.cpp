// Implements core/device/device_memory.h with CUDA.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device/cuda_runtime.h"
#include "core/device/device_memory.h"
#include "kernels/error.h"

namespace longhaul::device {
namespace {

void require_cuda(Device device) {
  if (device.is_cpu()) throw internal_error("device memory: {} is not a CUDA device", device.name());
  const int count = cuda_device_count();
  if (device.index < 0 || device.index >= count) {
    throw user_error("device {}: this machine has {} CUDA device(s); choose cpu or cuda:0 to cuda:{}", device.name(),
                     count, count > 0 ? count - 1 : 0);
  }
}

// One stream per device for the whole process, made on first use. Part of the runtime like the driver's own context.
cuda::Stream& stream_of(Device device) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<cuda::Stream>> streams;
  require_cuda(device);
  const std::lock_guard lock(mutex);
  const auto index = static_cast<size_t>(device.index);
  if (streams.size() <= index) streams.resize(index + 1);
  if (!streams[index]) streams[index] = std::make_unique<cuda::Stream>(device.index);
  return *streams[index];
}

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // no driver or no device is an answer here, not an error for the next call
  return 0;
}

std::byte* allocate(int64_t bytes, Device device) {
  require_cuda(device);
  const cuda::DeviceScope scope(device.index);
  void* data = nullptr;
  cuda::check(cudaMalloc(&data, static_cast<size_t>(bytes)),
              fmt::format("cudaMalloc of {} bytes on {}", bytes, device.name()));
  return static_cast<std::byte*>(data);
}

void release(std::byte* data, Device device) {
  cuda::check(cudaFree(data), fmt::format("cudaFree on {}", device.name()));
}

void copy(void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  // The source's stream first: what it still has to write must be there before another device reads it.
  if (!from_device.is_cpu()) stream_of(from_device).synchronize();
  const cuda::Stream& queue = stream_of(to_device.is_cpu() ? from_device : to_device);
  cuda::check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, queue.handle()),
              fmt::format("cudaMemcpyAsync of {} bytes from {} to {}", bytes, from_device.name(), to_device.name()));
  queue.synchronize();
}

void fill(void* data, Device device, int value, int64_t bytes) {
  if (bytes == 0) return;
  if (device.is_cpu()) {
    std::memset(data, value, static_cast<size_t>(bytes));
    return;
  }
  cuda::check(cudaMemsetAsync(data, value, static_cast<size_t>(bytes), stream_of(device).handle()),
              fmt::format("cudaMemsetAsync of {} bytes on {}", bytes, device.name()));
}

void* stream(Device device) { return stream_of(device).handle(); }

void synchronize(Device device) { stream_of(device).synchronize(); }

}  // namespace longhaul::device
