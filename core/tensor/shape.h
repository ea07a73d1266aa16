// The extents of a tensor: up to five, row-major.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace longhaul {

class Shape {
 public:
  static constexpr int kMaxRank = 5;
  Shape() = default;  ///< rank 0: a scalar
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[axis]; }  ///< axis in [0, rank)
  int64_t last() const { return rank_ == 0 ? 1 : extents_[rank_ - 1]; }
  int64_t count() const;  ///< number of elements (1 for rank 0); Error on overflow of int64
  int64_t rows() const;   ///< count / last: the tensor seen as a matrix of rows
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }
  std::string text() const;  ///< "[2, 3]"
  bool operator==(const Shape& other) const;

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace longhaul
