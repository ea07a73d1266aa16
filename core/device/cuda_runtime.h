// RAII types over the CUDA runtime: every call is checked, and a failure says which call failed on what. Included only
// by files that are compiled with CUDA (cuda_*.cpp, *.cu); everybody else sees core/device/device_memory.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

namespace longhaul::cuda {

/// system_error "<what>: <CUDA's words>" unless status is cudaSuccess, e.g. "cudaMalloc of 123 bytes on cuda:0: out of
/// memory".
void check(cudaError_t status, std::string_view what);

/// Makes `index` the calling thread's device for the life of this object; the previous one is restored at the end.
class DeviceScope {
 public:
  explicit DeviceScope(int index);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_ = 0;
};

/// An own queue of work on one device, without implicit ordering against the legacy default stream.
class Stream {
 public:
  explicit Stream(int index);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t handle() const { return handle_; }
  int device_index() const { return index_; }
  /// Waits until everything queued so far is done.
  void synchronize() const;

 private:
  cudaStream_t handle_ = nullptr;
  int index_;
};

/// A mark in a stream: another stream can wait for it, and the time between two marks can be measured.
class Event {
 public:
  explicit Event(int index);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream) const;
  /// Work queued on `stream` from now on waits for this event; the calling thread does not.
  void block(const Stream& stream) const;
  void synchronize() const;
  /// Milliseconds from `start` to this event; both must have been recorded and reached.
  float milliseconds_since(const Event& start) const;

 private:
  cudaEvent_t handle_ = nullptr;
  int index_;
};

/// Page-locked host memory: copies to and from a device run without a staging copy.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(int64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace longhaul::cuda
