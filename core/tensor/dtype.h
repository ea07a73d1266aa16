// Element types a tensor can store.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/bf16.h"

namespace longhaul {

enum class DType : uint8_t { f32, f64, bf16, i32, i64 };

int64_t size_of(DType type);                   ///< bytes per element
std::string_view name_of(DType type);          ///< "f32", ...
DType dtype_from_name(std::string_view name);  ///< user_error for an unknown name

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace longhaul
