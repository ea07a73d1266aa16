// A dense row-major array with a type and a device. Always contiguous: a view is a reshape or a range of rows.
// Copies of a Tensor share memory; clone() copies the elements.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/storage.h"
#include "kernels/error.h"

namespace longhaul {

class Tensor {
 public:
  Tensor() = default;  ///< undefined: defined() is false
  static Tensor empty(Shape shape, DType dtype, Device device = {});
  static Tensor zeros(Shape shape, DType dtype, Device device = {});
  template <typename T>
  static Tensor from(Shape shape, std::span<const T> values) {
    Tensor tensor = empty(shape, dtype_of<T>);
    tensor.assign_bytes(values.data(), static_cast<int64_t>(values.size_bytes()));
    return tensor;
  }
  template <typename T>
  static Tensor from(Shape shape, std::initializer_list<T> values) {
    return from<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  /// A tensor over memory that `owner` keeps alive.
  static Tensor wrap(void* data, Shape shape, DType dtype, std::shared_ptr<void> owner, Device device = {});

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t size(int axis) const { return shape_[axis]; }
  int64_t count() const { return count_; }
  int64_t bytes() const { return count_ * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }

  /// Typed pointer to the first element; internal_error when T is not the dtype.
  template <typename T>
  T* data() const {
    if (dtype_ != dtype_of<T>)
      throw internal_error("tensor {} holds {}, not {}", shape_.text(), name_of(dtype_), name_of(dtype_of<T>));
    return reinterpret_cast<T*>(raw());
  }
  std::byte* raw() const { return storage_->data() + offset_bytes_; }
  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<size_t>(count_)};
  }
  template <typename T>
  std::vector<T> to_vector() const {
    return {data<T>(), data<T>() + count_};
  }
  template <typename T>
  T item() const;  ///< the only element; Error when count() != 1

  Tensor view(Shape shape) const;                 ///< same elements, another shape of equal count
  Tensor rows(int64_t begin, int64_t end) const;  ///< range along the first axis
  Tensor clone() const;
  Tensor to(DType dtype) const;                ///< converted copy (same tensor when the type is equal)
  Tensor to(Device device) const;              ///< copy on another device
  void copy_from(const Tensor& source) const;  ///< equal shape and dtype
  void zero() const;
  /// True when no other tensor shares this memory: it may be changed in place.
  bool unique() const { return storage_.use_count() == 1; }

 private:
  void assign_bytes(const void* source, int64_t bytes);

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  int64_t count_ = 0;
  int64_t offset_bytes_ = 0;
  DType dtype_ = DType::f32;
};

template <typename T>
T Tensor::item() const {
  if (count_ != 1) throw internal_error("item() of a tensor {}", shape_.text());
  return *data<T>();
}

/// Calls function(float{}) or function(double{}) for an f32 or f64 tensor: how an op picks its kernel.
template <typename Function>
auto dispatch_float(const char* op, DType dtype, Function&& function) {
  if (dtype == DType::f32) return function(float{});
  if (dtype == DType::f64) return function(double{});
  throw internal_error("{}: computes in f32 or f64, not {}", op, name_of(dtype));
}

}  // namespace longhaul
