// Memory of CUDA devices, as the allocator and Tensor::to see it. One of two files implements it: cuda_memory.cpp when
// the program was built with CUDA, no_cuda_memory.cpp otherwise; so no caller needs an #ifdef and no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/device.h"

namespace longhaul::device {

/// Number of CUDA devices this process can use: 0 without a driver, without a device or in a build without CUDA.
int cuda_device_count();

/// Uncached device memory, 256-byte aligned. system_error naming the bytes and the device when it is refused;
/// user_error in a build without CUDA or when there is no such device. bytes >= 1.
std::byte* allocate(int64_t bytes, Device device);
void release(std::byte* data, Device device);

/// Copies bytes between any two memories (CPU <-> CUDA, CUDA <-> CUDA), in order with the work already queued on the
/// device's stream, and waits for the copy.
void copy(void* to, Device to_device, const void* from, Device from_device, int64_t bytes);

/// Sets every byte, in order with the work queued on the device's stream; does not wait for a CUDA device.
void fill(void* data, Device device, int value, int64_t bytes);

/// The stream (cudaStream_t) on which this process queues all work of a CUDA device: what kernels::Cuda carries.
void* stream(Device device);
/// Waits for everything queued on the device's stream.
void synchronize(Device device);

}  // namespace longhaul::device
