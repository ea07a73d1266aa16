#include "kernels/matmul.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "kernels/error.h"

namespace longhaul::kernels {
namespace {

void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda,
          const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda,
          const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/// BLAS takes sizes as int; offsets inside it are 64-bit.
int blas_size(const char* name, int64_t value) {
  if (value < 0 || value > std::numeric_limits<int>::max())
    throw internal_error("matmul: {} = {} is outside 0..2147483647, the range of the BLAS library; split the product",
                         name, value);
  return static_cast<int>(value);
}

}  // namespace

template <typename T>
void matmul(Cpu, T* c, int64_t c_stride, MatrixOperand<T> a, MatrixOperand<T> b, int64_t m, int64_t n, int64_t k,
            T alpha, T beta) {
  const int rows = blas_size("m", m), columns = blas_size("n", n), depth = blas_size("k", k);
  const int a_stride = blas_size("stride of A", a.stride), b_stride = blas_size("stride of B", b.stride);
  const int out_stride = blas_size("stride of C", c_stride);
  if (m == 0 || n == 0) return;
  if (k == 0) {  // BLAS libraries differ on whether they touch C here
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        T& element = c[row * c_stride + column];
        element = beta == 0 ? T(0) : beta * element;
      }
    return;
  }
  gemm(a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans, rows, columns, depth, alpha,
       a.data, a_stride, b.data, b_stride, beta, c, out_stride);
}

template void matmul(Cpu, float*, int64_t, MatrixOperand<float>, MatrixOperand<float>, int64_t, int64_t, int64_t, float,
                     float);
template void matmul(Cpu, double*, int64_t, MatrixOperand<double>, MatrixOperand<double>, int64_t, int64_t, int64_t,
                     double, double);

}  // namespace longhaul::kernels
