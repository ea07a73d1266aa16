// Whole-array forms of the vector functions.
#pragma once

#include "kernels/cpu/simd.h"

namespace longhaul::kernels {

/// values[i] = exp(values[i]).
template <typename T>
void exp_in_place(T* values, int64_t count) {
  simd::transform(
      values, count, [](auto x) { return simd::exp(x); }, values);
}

}  // namespace longhaul::kernels
