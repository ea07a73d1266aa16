#include "core/tensor/tensor.h"

#include <cstring>
#include <utility>

#include "core/device/device_memory.h"
#include "kernels/pointwise.h"

namespace longhaul {
namespace {

template <typename To, typename From>
void convert_into(const Tensor& target, const Tensor& source) {
  kernels::convert(kernels::Cpu{}, target.data<To>(), source.data<From>(), source.count());
}

}  // namespace

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.count_ = shape.count();
  tensor.dtype_ = dtype;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.count_, size_of(dtype), &bytes)) {
    throw internal_error("tensor: {} of {} has more bytes than 64 bits can count", shape.text(), name_of(dtype));
  }
  tensor.storage_ = std::make_shared<Storage>(bytes, device);
  return tensor;
}

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  tensor.zero();
  return tensor;
}

Tensor Tensor::wrap(void* data, Shape shape, DType dtype, std::shared_ptr<void> owner, Device device) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.count_ = shape.count();
  tensor.dtype_ = dtype;
  tensor.storage_ = std::make_shared<Storage>(data, tensor.count_ * size_of(dtype), device, std::move(owner));
  return tensor;
}

Tensor Tensor::view(Shape shape) const {
  if (shape.count() != count_) {
    throw internal_error("view: {} cannot be seen as {}: {} elements against {}", shape_.text(), shape.text(), count_,
                         shape.count());
  }
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  if (shape_.rank() == 0 || begin < 0 || begin > end || end > shape_[0]) {
    throw internal_error("rows: [{}, {}) is not a range of the first axis of {}", begin, end, shape_.text());
  }
  std::array<int64_t, Shape::kMaxRank> extents{};
  int64_t row_elements = 1;
  for (int axis = 1; axis < shape_.rank(); ++axis) {
    extents[static_cast<size_t>(axis)] = shape_[axis];
    row_elements *= shape_[axis];
  }
  extents[0] = end - begin;
  Tensor result = *this;
  result.shape_ = Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(shape_.rank())));
  result.count_ = (end - begin) * row_elements;
  result.offset_bytes_ = offset_bytes_ + begin * row_elements * size_of(dtype_);
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = empty(shape_, dtype_, device());
  result.copy_from(*this);
  return result;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (!device().is_cpu()) throw internal_error("tensor: conversion on {}; copy to the CPU first", device().name());
  // Doubles reach bf16 through float and back, the way every kernel sees them.
  if ((dtype_ == DType::f64 && dtype == DType::bf16) || (dtype_ == DType::bf16 && dtype == DType::f64)) {
    return to(DType::f32).to(dtype);
  }
  Tensor result = empty(shape_, dtype, device());
  if (dtype_ == DType::f32 && dtype == DType::f64) {
    convert_into<double, float>(result, *this);
  } else if (dtype_ == DType::f64 && dtype == DType::f32) {
    convert_into<float, double>(result, *this);
  } else if (dtype_ == DType::f32 && dtype == DType::bf16) {
    convert_into<bf16, float>(result, *this);
  } else if (dtype_ == DType::bf16 && dtype == DType::f32) {
    convert_into<float, bf16>(result, *this);
  } else {
    throw internal_error("tensor: {} of {} cannot become {}", shape_.text(), name_of(dtype_), name_of(dtype));
  }
  return result;
}

Tensor Tensor::to(Device target) const {
  if (target == device()) return *this;
  Tensor result = empty(shape_, dtype_, target);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& source) const {
  if (!(source.shape_ == shape_) || source.dtype_ != dtype_) {
    throw internal_error("copy_from: {} {} into {} {}", name_of(source.dtype_), source.shape_.text(), name_of(dtype_),
                         shape_.text());
  }
  if (count_ == 0) return;
  if (device().is_cpu() && source.device().is_cpu()) {
    std::memmove(raw(), source.raw(), static_cast<size_t>(bytes()));
  } else {
    device::copy(raw(), device(), source.raw(), source.device(), bytes());
  }
}

void Tensor::zero() const {
  if (count_ == 0) return;
  if (device().is_cpu()) {
    std::memset(raw(), 0, static_cast<size_t>(bytes()));
  } else {
    device::fill(raw(), device(), 0, bytes());
  }
}

void Tensor::assign_bytes(const void* source, int64_t bytes) {
  if (bytes != this->bytes()) {
    throw internal_error("tensor: {} bytes given for {} of {}", bytes, shape_.text(), name_of(dtype_));
  }
  if (bytes > 0) std::memcpy(raw(), source, static_cast<size_t>(bytes));
}

}  // namespace longhaul
