// General matrix product, the one place that calls BLAS (cpu/) or cuBLASLt (cuda/).
#pragma once

#include <string>

#include "kernels/device.h"

namespace longhaul::kernels {

/// One operand: row-major, `stride` elements between rows; `transposed` means the stored matrix is used as its
/// transpose.
template <typename T>
struct MatrixOperand {
  const T* data;
  int64_t stride;
  bool transposed = false;
};

/// C [m, n] = alpha * op(A) [m, k] * op(B) [k, n] + beta * C. beta 0 never reads C. Any of m, n, k may be 0.
/// Source: BLAS level 3 GEMM, row-major.
/// Bits: an element depends on its row of op(A) and its column of op(B) alone. It is the same in a larger or smaller
/// matrix, at any place in it, and on any number of threads (docs/numerics.md says what of BLIS this rests on). Inside
/// a parallel region the call runs on the calling thread.
template <typename T>
void matmul(Cpu, T* c, int64_t c_stride, MatrixOperand<T> a, MatrixOperand<T> b, int64_t m, int64_t n, int64_t k,
            T alpha, T beta);

/// The BLAS library as loaded: name, version, and the processor it chose its inner kernels for.
std::string blas_name();

/// (Out, In) is (float, float), (bf16, bf16) or (float, bf16); products are summed in float, without TF32 rounding.
template <typename Out, typename In>
void matmul(const Cuda& device, Out* c, int64_t c_stride, MatrixOperand<In> a, MatrixOperand<In> b, int64_t m,
            int64_t n, int64_t k, float alpha, float beta);

}  // namespace longhaul::kernels
