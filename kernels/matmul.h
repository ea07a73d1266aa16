// General matrix product, the one place that calls BLAS (cpu/) or cuBLASLt (cuda/).
#pragma once

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
/// Bits: equal calls on an equal number of threads give equal results. A BLAS library may choose another inner kernel
/// by the size and by the place of a row in the matrix, so a row alone need not have the bits it has among others (seen
/// with OpenBLAS for tiny products: k = 16, n <= 48, two threads), and another number of threads may give other last
/// bits. This is the one kernel without those two promises. Throws an internal error where a size or stride exceeds
/// 2^31 - 1, the range of the BLAS interface; offsets do not count.
template <typename T>
void matmul(Cpu, T* c, int64_t c_stride, MatrixOperand<T> a, MatrixOperand<T> b, int64_t m, int64_t n, int64_t k,
            T alpha, T beta);

/// (Out, In) is (float, float), (bf16, bf16) or (float, bf16); products are summed in float, without TF32 rounding.
template <typename Out, typename In>
void matmul(const Cuda& device, Out* c, int64_t c_stride, MatrixOperand<In> a, MatrixOperand<In> b, int64_t m,
            int64_t n, int64_t k, float alpha, float beta);

}  // namespace longhaul::kernels
