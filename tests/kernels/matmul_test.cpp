#include "kernels/matmul.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/mman.h>

#include <cmath>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class MatmulTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MatmulTest, ElementTypes);

template <typename T>
struct Product {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  T alpha, beta;
};

/// Runs one product with padded strides and returns its error against the definition; the padding must stay untouched.
template <typename T>
double product_error(const Product<T>& p) {
  const int64_t a_stride = (p.a_transposed ? p.m : p.k) + 2, b_stride = (p.b_transposed ? p.k : p.n) + 1;
  const int64_t c_stride = p.n + 3;
  const auto a = random_values<T>((p.a_transposed ? p.k : p.m) * a_stride + 1, 1);
  const auto b = random_values<T>((p.b_transposed ? p.n : p.k) * b_stride + 1, 2);
  auto c = random_values<T>(p.m * c_stride + 1, 3);
  std::vector<double> expected(c.begin(), c.end());
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t t = 0; t < p.k; ++t)
        sum += double(a[static_cast<size_t>(p.a_transposed ? t * a_stride + i : i * a_stride + t)]) *
               double(b[static_cast<size_t>(p.b_transposed ? j * b_stride + t : t * b_stride + j)]);
      double& target = expected[static_cast<size_t>(i * c_stride + j)];
      target = double(p.alpha) * sum + double(p.beta) * target;
    }
  if (p.beta == 0)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) c[static_cast<size_t>(i * c_stride + j)] = T(NAN);
  matmul<T>(Cpu{}, c.data(), c_stride, {a.data(), a_stride, p.a_transposed}, {b.data(), b_stride, p.b_transposed}, p.m,
            p.n, p.k, p.alpha, p.beta);
  return relative_error(c, expected);
}

TYPED_TEST(MatmulTest, AllTransposesAndOddSizes) {
  for (int64_t m : {1, 3, 65})
    for (int64_t n : {1, 2, 63})
      for (int64_t k : {0, 1, 5, 127})
        for (bool a_transposed : {false, true})
          for (bool b_transposed : {false, true})
            for (TypeParam beta : {TypeParam(0), TypeParam(1), TypeParam(0.5)})
              EXPECT_LT(product_error<TypeParam>({m, n, k, a_transposed, b_transposed, TypeParam(1.5), beta}),
                        tolerance<TypeParam>())
                  << m << "x" << n << "x" << k << " " << a_transposed << b_transposed << " beta " << beta;
}

TYPED_TEST(MatmulTest, EmptyResultsTouchNothing) {
  matmul<TypeParam>(Cpu{}, nullptr, 1, {nullptr, 1}, {nullptr, 1}, 0, 5, 5, 1, 0);
  matmul<TypeParam>(Cpu{}, nullptr, 1, {nullptr, 1}, {nullptr, 1}, 5, 0, 5, 1, 0);
}

/// Rows [first, first + m) and columns [from, from + n) of the product of a larger pair of matrices, alone.
template <typename T>
std::vector<T> part_of_product(const std::vector<T>& a, const std::vector<T>& b, int64_t k, int64_t first, int64_t m,
                               int64_t from, int64_t n) {
  std::vector<T> c(static_cast<size_t>(m * n), T(NAN));
  matmul<T>(Cpu{}, c.data(), n, {a.data() + first * k, k}, {b.data() + from * k, k, true}, m, n, k, T(1), T(0));
  return c;
}

TYPED_TEST(MatmulTest, AnElementDependsOnItsRowAndColumnAlone) {
  constexpr int64_t kRows = 100, kColumns = 133;
  for (int64_t k : {5, 64, 257, 800}) {
    const auto a = random_values<TypeParam>(kRows * k, 1), b = random_values<TypeParam>(kColumns * k, 2);
    const auto whole = part_of_product(a, b, k, 0, kRows, 0, kColumns);
    for (int64_t first : {0, 1, 7, 50})
      for (int64_t m : {1, 2, 13, 50})
        for (int64_t from : {0, 5})
          for (int64_t n : {1, 3, 48, 128}) {
            const auto part = part_of_product(a, b, k, first, m, from, n);
            int64_t different = 0;
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = 0; j < n; ++j)
                different += part[static_cast<size_t>(i * n + j)] !=
                             whole[static_cast<size_t>((first + i) * kColumns + from + j)];
            EXPECT_EQ(different, 0) << k << ": rows " << first << "+" << m << ", columns " << from << "+" << n;
          }
  }
}

TYPED_TEST(MatmulTest, SameBitsOnAnyNumberOfThreads) {
  constexpr int64_t kRows = 190, kColumns = 211, kDepth = 300;  // enough work to be divided
  const auto a = random_values<TypeParam>(kRows * kDepth, 1), b = random_values<TypeParam>(kColumns * kDepth, 2);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto alone = part_of_product(a, b, kDepth, 0, kRows, 0, kColumns);
  for (int threads : {2, 3, 4, 7}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(part_of_product(a, b, kDepth, 0, kRows, 0, kColumns), alone) << threads;
  }
  omp_set_num_threads(before);
}

TEST(MatmulOffsetTest, RowsBeyondTwoToThe31Elements) {
  constexpr int64_t kStride = int64_t{1} << 30, kRows = 4;
  const size_t bytes = static_cast<size_t>(kStride * kRows) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "cannot reserve address space";
  float* const base = static_cast<float*>(memory);
  for (int64_t row = 0; row < kRows; ++row) base[row * kStride] = static_cast<float>(row + 1);
  const float factor = 10;
  matmul<float>(Cpu{}, base + 8, kStride, {base, kStride}, {&factor, 1}, kRows, 1, 1, 1.0f, 0.0f);
  for (int64_t row = 0; row < kRows; ++row) EXPECT_EQ(base[row * kStride + 8], 10.0f * static_cast<float>(row + 1));
  munmap(memory, bytes);
}

}  // namespace
}  // namespace longhaul::kernels
