#include "core/tensor/shape.h"

#include <algorithm>

#include "kernels/error.h"

namespace longhaul {

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  if (extents.size() > kMaxRank)
    throw internal_error("shape: {} axes, at most {} are possible", extents.size(), kMaxRank);
  std::copy(extents.begin(), extents.end(), extents_.begin());
  for (const int64_t extent : extents) {
    if (extent < 0) throw internal_error("shape: extent {} in {} is negative", extent, text());
  }
}

int64_t Shape::count() const {
  int64_t product = 1;
  for (const int64_t extent : extents()) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      throw internal_error("shape: {} has more elements than 64 bits can count", text());
    }
  }
  return product;
}

int64_t Shape::rows() const {
  int64_t product = 1;
  for (int axis = 0; axis + 1 < rank_; ++axis) {
    if (__builtin_mul_overflow(product, extents_[axis], &product)) {
      throw internal_error("shape: {} has more rows than 64 bits can count", text());
    }
  }
  return product;
}

std::string Shape::text() const {
  std::string result = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) result += ", ";
    result += std::to_string(extents_[axis]);
  }
  return result + "]";
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(extents().begin(), extents().end(), other.extents().begin(), other.extents().end());
}

}  // namespace longhaul
