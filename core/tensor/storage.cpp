#include "core/tensor/storage.h"

#include <utility>

#include "core/tensor/allocator.h"

namespace longhaul {

Storage::Storage(int64_t bytes, Device device)
    : data_(allocator::allocate(bytes, device)), bytes_(bytes), device_(device), from_allocator_(true) {}

Storage::Storage(void* data, int64_t bytes, Device device, std::shared_ptr<void> owner)
    : data_(static_cast<std::byte*>(data)), bytes_(bytes), device_(device), owner_(std::move(owner)) {}

Storage::~Storage() {
  if (from_allocator_) allocator::release(data_, bytes_, device_);
}

}  // namespace longhaul
