#include "kernels/int16_matmul.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

struct Problem {
  int64_t rows, columns, depth;
  std::vector<float> x, weight;
  Problem(int64_t m, int64_t n, int64_t k)
      : rows(m), columns(n), depth(k), x(random_values<float>(m * k, 1)), weight(random_values<float>(n * k, 2)) {}
};

std::vector<float> product(const Problem& p) {
  std::vector<int16_t> left(static_cast<size_t>(int16_left_count(p.rows, p.depth)), int16_t{99});
  std::vector<int16_t> right(static_cast<size_t>(int16_right_count(p.columns, p.depth)), int16_t{99});
  std::vector<float> left_scales(static_cast<size_t>(p.rows)), right_scales(static_cast<size_t>(p.columns));
  std::vector<float> c(static_cast<size_t>(p.rows * p.columns), NAN);
  int16_quantize_left(Cpu{}, left.data(), left_scales.data(), p.x.data(), p.rows, p.depth);
  int16_quantize_right(Cpu{}, right.data(), right_scales.data(), p.weight.data(), p.columns, p.depth);
  int16_matmul(Cpu{}, c.data(), p.columns, left.data(), left_scales.data(), right.data(), right_scales.data(), p.rows,
               p.columns, p.depth);
  return c;
}

/// The definition, element by element: nearest integers, exact sums, one multiplication with the scales.
std::vector<float> reference(const Problem& p) {
  const float limit = static_cast<float>(int16_limit(p.depth));
  const auto quantized = [&](const float* row, float& scale) {
    float largest = 0;
    for (int64_t i = 0; i < p.depth; ++i) largest = std::max(largest, std::abs(row[i]));
    scale = largest / limit;
    std::vector<int64_t> integers;
    for (int64_t i = 0; i < p.depth; ++i) integers.push_back(std::lrint(row[i] * (limit / largest)));
    return integers;
  };
  std::vector<float> c;
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t column = 0; column < p.columns; ++column) {
      float left = 0, right = 0;
      const auto a = quantized(p.x.data() + row * p.depth, left);
      const auto b = quantized(p.weight.data() + column * p.depth, right);
      int64_t sum = 0;
      for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
      c.push_back(static_cast<float>(sum) * (right * left));
    }
  return c;
}

TEST(Int16Matmul, IsExactInItsIntegersAtOddSizes) {
  for (int64_t rows : {1, 5, 6, 13})
    for (int64_t columns : {1, 15, 16, 33})
      for (int64_t depth : {1, 2, 7, 31, 255, 257, 600}) {
        const Problem p(rows, columns, depth);
        EXPECT_TRUE(same_bits(product(p), reference(p))) << rows << " x " << columns << " x " << depth;
      }
}

TEST(Int16Matmul, IsCloseToTheProduct) {
  const Problem p(20, 40, 768);
  std::vector<double> exact(static_cast<size_t>(20 * 40), 0.0);
  for (size_t r = 0; r < 20; ++r)
    for (size_t c = 0; c < 40; ++c)
      for (size_t i = 0; i < 768; ++i) exact[r * 40 + c] += double(p.x[r * 768 + i]) * double(p.weight[c * 768 + i]);
  EXPECT_LT(relative_error(product(p), exact), 1e-3);
}

TEST(Int16Matmul, LargestIntegersDoNotOverflow) {
  for (int64_t depth : {1, 2, 3, 4, 100, 768, 2048, 5000}) {
    const double limit = static_cast<double>(int16_limit(depth));
    EXPECT_LE(limit * limit * static_cast<double>(depth), 2147483647.0);
    Problem p(7, 17, depth);
    std::fill(p.x.begin(), p.x.end(), 3.0f);
    std::fill(p.weight.begin(), p.weight.end(), -2.0f);
    for (float value : product(p))
      EXPECT_NEAR(value, -6.0 * static_cast<double>(depth), 1e-5 * static_cast<double>(depth));
  }
}

TEST(Int16Matmul, ZerosStayZeroAndWhatIsNotFiniteShows) {
  Problem p(3, 18, 9);
  std::fill(p.x.begin(), p.x.begin() + 9, 0.0f);
  p.x[10] = std::numeric_limits<float>::infinity();
  p.x[9 + 8] = NAN;
  const std::vector<float> c = product(p);
  for (size_t column = 0; column < 18; ++column) {
    EXPECT_EQ(c[column], 0.0f);
    EXPECT_TRUE(std::isnan(c[18 + column]));
    EXPECT_TRUE(std::isfinite(c[36 + column]));
  }
}

TEST(Int16Matmul, SameBitsOnAnyNumberOfThreads) {
  expect_same_on_any_threads([] { return product(Problem(203, 70, 50)); });
}

}  // namespace
}  // namespace longhaul::kernels
