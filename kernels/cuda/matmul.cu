// The matrix product (kernels/matmul.h) through cuBLASLt.
#include <cublasLt.h>

#include "kernels/cuda/device.hpp"
#include "kernels/matmul.h"

namespace longhaul::kernels {
namespace cuda {

template <typename T>
__global__ void scale_matrix_kernel(T* c, int64_t stride, int64_t m, int64_t n, float beta) {
  for (int64_t i = first_element(); i < m * n; i += element_stride()) {
    T& element = c[(i / n) * stride + i % n];
    element = from_float<T>(beta == 0.0f ? 0.0f : beta * to_float(element));
  }
}

template <typename T>
constexpr cudaDataType_t kDataType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kDataType<bf16> = CUDA_R_16BF;

/// One product, and the cuBLASLt descriptions of it. cuBLAS is column-major: it sees every row-major matrix as its
/// transpose, so it is asked for C^T = op(B)^T op(A)^T, with B first.
class Product {
 public:
  Product(int64_t m, int64_t n, int64_t k) : m_(m), n_(n), k_(k) {}
  ~Product() {
    if (operation_) cublasLtMatmulDescDestroy(operation_);
    for (cublasLtMatrixLayout_t layout : {b_, a_, c_}) {
      if (layout) cublasLtMatrixLayoutDestroy(layout);
    }
    if (preference_) cublasLtMatmulPreferenceDestroy(preference_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  template <typename Out, typename In>
  void run(const Cuda& device, Out* c, int64_t c_stride, const MatrixOperand<In>& a, const MatrixOperand<In>& b,
           float alpha, float beta) {
    check(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set_transposed(CUBLASLT_MATMUL_DESC_TRANSA, b.transposed);
    set_transposed(CUBLASLT_MATMUL_DESC_TRANSB, a.transposed);
    create_layout(&b_, kDataType<In>, b.transposed ? k_ : n_, b.transposed ? n_ : k_, b.stride);
    create_layout(&a_, kDataType<In>, a.transposed ? m_ : k_, a.transposed ? k_ : m_, a.stride);
    create_layout(&c_, kDataType<Out>, n_, m_, c_stride);
    const cublasLtMatmulAlgo_t algorithm = choose(device);
    check(cublasLtMatmul(handle(device), operation_, &alpha, b.data, b_, a.data, a_, &beta, c, c_, c, c_, &algorithm,
                         device.workspace, static_cast<size_t>(device.workspace_bytes),
                         static_cast<cudaStream_t>(device.stream)),
          "cublasLtMatmul");
  }

 private:
  static cublasLtHandle_t handle(const Cuda& device) { return static_cast<cublasLtHandle_t>(device.blas_handle); }
  void check(cublasStatus_t status, const char* call) const { check_matmul(status, call, m_, n_, k_); }

  void set_transposed(cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }

  void create_layout(cublasLtMatrixLayout_t* layout, cudaDataType_t type, int64_t rows, int64_t columns,
                     int64_t stride) {
    check(cublasLtMatrixLayoutCreate(layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), stride),
          "cublasLtMatrixLayoutCreate");
  }

  // The library's own first choice for these sizes: the same on every call. Split sums are allowed only in the
  // workspace, where their order is fixed.
  cublasLtMatmulAlgo_t choose(const Cuda& device) {
    check(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    const uint64_t workspace = static_cast<uint64_t>(device.workspace_bytes);
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    check(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                               sizeof(workspace)),
          "cublasLtMatmulPreferenceSetAttribute");
    check(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                               sizeof(reductions)),
          "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle(device), operation_, b_, a_, c_, c_, preference_, 1, &result, &found),
          "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
    return result.algo;
  }

  int64_t m_, n_, k_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr, a_ = nullptr, c_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace cuda

template <typename Out, typename In>
void matmul(const Cuda& device, Out* c, int64_t c_stride, MatrixOperand<In> a, MatrixOperand<In> b, int64_t m,
            int64_t n, int64_t k, float alpha, float beta) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    cuda::launch(cuda::scale_matrix_kernel<Out>, cuda::elementwise(device, m * n), c, c_stride, m, n, beta);
    return;
  }
  cuda::Product(m, n, k).run(device, c, c_stride, a, b, alpha, beta);
}

template void matmul<float, float>(const Cuda&, float*, int64_t, MatrixOperand<float>, MatrixOperand<float>, int64_t,
                                   int64_t, int64_t, float, float);
template void matmul<bf16, bf16>(const Cuda&, bf16*, int64_t, MatrixOperand<bf16>, MatrixOperand<bf16>, int64_t,
                                 int64_t, int64_t, float, float);
template void matmul<float, bf16>(const Cuda&, float*, int64_t, MatrixOperand<bf16>, MatrixOperand<bf16>, int64_t,
                                  int64_t, int64_t, float, float);

}  // namespace longhaul::kernels
