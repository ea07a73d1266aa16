// The product of a dense layer, y = x W^T, as training and as decoding want it.
#pragma once

#include "core/autograd/tape.h"
#include "core/ops/op_support.h"
#include "kernels/matmul.h"
#include "kernels/matvec.h"

namespace longhaul::ops {

/// Rows up to which kernels::matvec beats a general product.
inline constexpr int64_t kFewRows = 16;

/// y [rows, outputs] = x [rows, inputs] weight^T, weight [outputs, inputs], without gaps. Few rows of a decoding tape
/// run at the speed of memory, with other last bits than a general product gives.
template <typename T>
void times_transposed(Tape::Mode mode, T* y, const T* x, const T* weight, int64_t rows, int64_t outputs,
                      int64_t inputs) {
  if (mode == Tape::Mode::decode && rows <= kFewRows) {
    kernels::matvec<T>(kCpu, y, x, weight, rows, outputs, inputs);
  } else {
    kernels::matmul<T>(kCpu, y, outputs, {x, inputs}, {weight, inputs, true}, rows, outputs, inputs, T(1), T(0));
  }
}

}  // namespace longhaul::ops
