#include "kernels/pointwise.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class PointwiseTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PointwiseTest, ElementTypes);

constexpr int64_t kSizes[] = {0, 1, 2, 3, 63, 64, 65, 127, 40001};

TYPED_TEST(PointwiseTest, FillAddScale) {
  for (int64_t count : kSizes) {
    const auto a = random_values<TypeParam>(count, 1), b = random_values<TypeParam>(count, 2);
    std::vector<TypeParam> y(a.size() + 1, TypeParam(NAN)), sum = a;
    y.back() = 5;  // one past the end
    fill<TypeParam>(Cpu{}, y.data(), TypeParam(1.5), count);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(y[i], TypeParam(1.5));
    add<TypeParam>(Cpu{}, y.data(), a.data(), b.data(), count);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(y[i], a[i] + b[i]);
    add<TypeParam>(Cpu{}, sum.data(), sum.data(), b.data(), count);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(sum[i], a[i] + b[i]);
    scale<TypeParam>(Cpu{}, y.data(), TypeParam(3), count);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(y[i], (a[i] + b[i]) * 3);
    EXPECT_EQ(y.back(), 5);
  }
}

TEST(PointwiseFillTest, Bf16) {
  std::vector<bf16> y(3);
  fill<bf16>(Cpu{}, y.data(), bf16(2.0f), 3);
  EXPECT_EQ(float(y[2]), 2.0f);
}

TYPED_TEST(PointwiseTest, AddBias) {
  for (int64_t columns : {1, 3, 65, 127}) {
    auto y = random_values<TypeParam>(3 * columns, 1);
    const auto before = y, bias = random_values<TypeParam>(columns, 2);
    add_bias<TypeParam>(Cpu{}, y.data(), bias.data(), 3, columns);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], before[i] + bias[i % static_cast<size_t>(columns)]);
  }
}

TYPED_TEST(PointwiseTest, ColumnSumsRunDownTheRowsInOrder) {
  for (int64_t rows : {0, 1, 3, 4, 5, 130})
    for (int64_t columns : {1, 17, 65, 700}) {
      const auto dy = random_values<TypeParam>(rows * columns, 1);
      std::vector<TypeParam> rising(static_cast<size_t>(columns), 0);
      for (size_t i = 0; i < dy.size(); ++i) rising[i % static_cast<size_t>(columns)] += dy[i];
      std::vector<TypeParam> dbias(static_cast<size_t>(columns), TypeParam(NAN));
      column_sum<TypeParam>(Cpu{}, dbias.data(), false, dy.data(), rows, columns);
      EXPECT_TRUE(same_bits(dbias, rising)) << rows << "x" << columns;
      column_sum<TypeParam>(Cpu{}, dbias.data(), true, dy.data(), rows, columns);
      for (size_t i = 0; i < rising.size(); ++i) ASSERT_EQ(dbias[i], rising[i] + rising[i]);
    }
}

TYPED_TEST(PointwiseTest, ColumnSumsAndSquaresDoNotDependOnThreads) {
  const auto x = random_values<TypeParam>(300 * 211, 1);
  expect_same_on_any_threads([&] {
    std::vector<TypeParam> sums(211);
    column_sum<TypeParam>(Cpu{}, sums.data(), false, x.data(), 300, 211);
    return sums;
  });
  expect_same_on_any_threads(
      [&] { return std::vector<double>{sum_of_squares<TypeParam>(Cpu{}, x.data(), static_cast<int64_t>(x.size()))}; });
}

TYPED_TEST(PointwiseTest, SumOfSquares) {
  for (int64_t count : {0, 1, 2, 3, 63, 64, 65, 127, 4095, 4096, 4097, 40001}) {
    const auto x = random_values<TypeParam>(count, 1);
    double expected = 0;
    for (TypeParam value : x) expected += double(value) * double(value);
    EXPECT_NEAR(sum_of_squares<TypeParam>(Cpu{}, x.data(), count), expected, 1e-12 * expected) << count;
  }
}

TYPED_TEST(PointwiseTest, SumOfSquaresIsMadeOfBlocksInOrder) {
  const int64_t count = 3 * 4096 + 77;
  const auto x = random_values<TypeParam>(count, 1);
  double blocks = 0;
  for (int64_t first = 0; first < count; first += 4096)
    blocks += sum_of_squares<TypeParam>(Cpu{}, x.data() + first, std::min<int64_t>(4096, count - first));
  EXPECT_EQ(sum_of_squares<TypeParam>(Cpu{}, x.data(), count), blocks);
}

TYPED_TEST(PointwiseTest, AllFiniteFindsOneBadElement) {
  for (int64_t count : {1, 63, 65, 5000, 40001})
    for (TypeParam bad : {TypeParam(NAN), TypeParam(INFINITY), TypeParam(-INFINITY)})
      for (int64_t at : {int64_t{0}, count / 2, count - 1}) {
        auto x = random_values<TypeParam>(count, 1);
        x[0] = std::numeric_limits<TypeParam>::max();  // large is not infinite
        EXPECT_TRUE(all_finite<TypeParam>(Cpu{}, x.data(), count));
        x[static_cast<size_t>(at)] = bad;
        EXPECT_FALSE(all_finite<TypeParam>(Cpu{}, x.data(), count)) << count << " at " << at;
      }
  EXPECT_TRUE(all_finite<TypeParam>(Cpu{}, nullptr, 0));
}

TYPED_TEST(PointwiseTest, LerpAverage) {
  std::vector<TypeParam> average = {1, 2, 3}, x = {5, 2, -1};
  lerp_average<TypeParam>(Cpu{}, average.data(), x.data(), 0.75, 3);
  EXPECT_EQ(average, (std::vector<TypeParam>{2, 2, 2}));
}

TEST(ConvertTest, Pairs) {
  const std::vector<float> x = random_values<float>(131, 1);
  std::vector<bf16> half(131);
  std::vector<float> back(131), same(131);
  std::vector<double> wide(131), wide_copy(131);
  convert<bf16, float>(Cpu{}, half.data(), x.data(), 131);
  convert<float, bf16>(Cpu{}, back.data(), half.data(), 131);
  convert<double, float>(Cpu{}, wide.data(), x.data(), 131);
  convert<double, double>(Cpu{}, wide_copy.data(), wide.data(), 131);
  convert<float, double>(Cpu{}, same.data(), wide_copy.data(), 131);
  EXPECT_TRUE(same_bits(same, x));
  for (size_t i = 0; i < 131; ++i) EXPECT_EQ(back[i], float(bf16(x[i])));
  convert<float, float>(Cpu{}, same.data(), back.data(), 131);
  EXPECT_TRUE(same_bits(same, back));
}

}  // namespace
}  // namespace longhaul::kernels
