#include "core/device/cuda_runtime.h"

#include <fmt/format.h>

#include "kernels/error.h"

namespace longhaul::cuda {

void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a sticky copy of the same error must not be blamed on the next call
  throw system_error("{}: {}", what, cudaGetErrorString(status));
}

DeviceScope::DeviceScope(int index) {
  check(cudaGetDevice(&previous_), "cudaGetDevice");
  check(cudaSetDevice(index), fmt::format("cudaSetDevice of cuda:{}", index));
}

// Destructors cannot throw. A failure here repeats on the next checked call, because CUDA's errors are sticky.
DeviceScope::~DeviceScope() { cudaSetDevice(previous_); }

Stream::Stream(int index) : index_(index) {
  const DeviceScope scope(index);
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), fmt::format("cudaStreamCreate on cuda:{}", index));
}

Stream::~Stream() { cudaStreamDestroy(handle_); }

void Stream::synchronize() const {
  check(cudaStreamSynchronize(handle_), fmt::format("cudaStreamSynchronize on cuda:{}", index_));
}

Event::Event(int index) : index_(index) {
  const DeviceScope scope(index);
  check(cudaEventCreate(&handle_), fmt::format("cudaEventCreate on cuda:{}", index));
}

Event::~Event() { cudaEventDestroy(handle_); }

void Event::record(const Stream& stream) const {
  check(cudaEventRecord(handle_, stream.handle()), fmt::format("cudaEventRecord on cuda:{}", index_));
}

void Event::block(const Stream& stream) const {
  check(cudaStreamWaitEvent(stream.handle(), handle_, 0),
        fmt::format("cudaStreamWaitEvent on cuda:{}", stream.device_index()));
}

void Event::synchronize() const {
  check(cudaEventSynchronize(handle_), fmt::format("cudaEventSynchronize on cuda:{}", index_));
}

float Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.handle_, handle_),
        fmt::format("cudaEventElapsedTime on cuda:{}", index_));
  return milliseconds;
}

PinnedBuffer::PinnedBuffer(int64_t bytes) : bytes_(bytes) {
  check(cudaMallocHost(&data_, static_cast<size_t>(bytes)), fmt::format("cudaMallocHost of {} bytes", bytes));
}

PinnedBuffer::~PinnedBuffer() { cudaFreeHost(data_); }

}  // namespace longhaul::cuda
