#include "kernels/rope.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class RopeTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RopeTest, ElementTypes);

TYPED_TEST(RopeTest, RotatesPairsHalfAHeadApart) {
  constexpr int64_t kHeadSize = 6, kHeads = 2, kStride = 15, kRows = 3;
  std::vector<TypeParam> table(10 * kHeadSize);
  rope_table<TypeParam>(Cpu{}, table.data(), 10, kHeadSize, 10000);
  auto x = random_values<TypeParam>(kRows * kStride, 1);
  const std::vector<int32_t> positions = {0, 9, 4};
  std::vector<double> expected(x.begin(), x.end());
  for (size_t row = 0; row < kRows; ++row)
    for (size_t head = 0; head < kHeads; ++head)
      for (size_t i = 0; i < 3; ++i) {
        const double angle = positions[row] * std::pow(10000.0, -2.0 * static_cast<double>(i) / 6);
        double &a = expected[row * kStride + head * 6 + i], &b = expected[row * kStride + head * 6 + i + 3];
        const double low = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = low;
      }
  rope_rotate<TypeParam>(Cpu{}, x.data(), positions.data(), table.data(), kRows, kHeads, kHeadSize, kStride, false);
  EXPECT_LT(relative_error(x, expected), tolerance<TypeParam>());
}

TYPED_TEST(RopeTest, InverseUndoesTheRotation) {
  constexpr int64_t kRows = 300, kHeadSize = 130;
  std::vector<TypeParam> table(kRows * kHeadSize);
  rope_table<TypeParam>(Cpu{}, table.data(), kRows, kHeadSize, 10000);
  std::vector<int32_t> positions(kRows);
  for (int32_t row = 0; row < kRows; ++row) positions[static_cast<size_t>(row)] = row;
  const auto x = random_values<TypeParam>(kRows * kHeadSize, 1);
  auto turned = x;
  rope_rotate<TypeParam>(Cpu{}, turned.data(), positions.data(), table.data(), kRows, 1, kHeadSize, kHeadSize, false);
  EXPECT_GT(relative_error(turned, x), 0.1);
  rope_rotate<TypeParam>(Cpu{}, turned.data(), positions.data(), table.data(), kRows, 1, kHeadSize, kHeadSize, true);
  EXPECT_LT(relative_error(turned, x), tolerance<TypeParam>());
}

TEST(RopeTableTest, AnglesAreExactAtLargePositions) {
  // 100,000 radians: an angle in float would be wrong in the third digit.
  std::vector<float> table(100001 * 2);
  rope_table<float>(Cpu{}, table.data(), 100001, 2, 10000);
  EXPECT_EQ(table[200000], static_cast<float>(std::cos(100000.0)));
  EXPECT_EQ(table[200001], static_cast<float>(std::sin(100000.0)));
}

TYPED_TEST(RopeTest, SameBitsOnAnyThreads) {
  constexpr int64_t kRows = 700, kHeadSize = 64;
  std::vector<int32_t> positions(kRows, 3);
  expect_same_on_any_threads([&] {
    std::vector<TypeParam> table(kRows * kHeadSize);
    rope_table<TypeParam>(Cpu{}, table.data(), kRows, kHeadSize, 10000);
    auto x = random_values<TypeParam>(kRows * kHeadSize, 1);
    rope_rotate<TypeParam>(Cpu{}, x.data(), positions.data(), table.data(), kRows, 1, kHeadSize, kHeadSize, false);
    x.insert(x.end(), table.begin(), table.end());
    return x;
  });
}

}  // namespace
}  // namespace longhaul::kernels
