#include <gtest/gtest.h>

#include "kernels/pointwise.h"
#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class DropoutTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutTest, ElementTypes);

constexpr RandomKey kKey{.seed = 5, .step = 7, .layer = 11};

template <typename T>
std::vector<T> run(const std::vector<T>& x, double p, std::vector<int64_t> samples, int64_t rows_per_sample,
                   int64_t columns, RandomKey key = kKey) {
  std::vector<T> y(x.size(), T(NAN));
  dropout<T>(Cpu{}, y.data(), x.data(), p, key, samples.data(), static_cast<int64_t>(samples.size()) * rows_per_sample,
             rows_per_sample, columns);
  return y;
}

TYPED_TEST(DropoutTest, EachElementFollowsItsOwnCounter) {
  for (int64_t columns : {1, 3, 64, 67, 127}) {
    const std::vector<int64_t> samples = {9, int64_t{1} << 40};
    const auto x = random_values<TypeParam>(2 * 3 * columns, 1);
    const auto y = run(x, 0.3, samples, 3, columns);
    for (int64_t i = 0; i < 6 * columns; ++i) {
      const int64_t element = i % (3 * columns);
      uint32_t bits[4];
      random_bits4(kKey, static_cast<uint64_t>(samples[static_cast<size_t>(i / (3 * columns))]),
                   static_cast<uint64_t>(element) / 4, bits);
      const bool kept = uniform_from_bits(bits[element % 4]) >= 0.3f;
      ASSERT_EQ(y[static_cast<size_t>(i)], kept ? x[static_cast<size_t>(i)] * TypeParam(1 / 0.7) : 0) << i;
    }
  }
}

TYPED_TEST(DropoutTest, ASampleHasTheSameMaskInAnyRowOfTheBatch) {
  const std::vector<TypeParam> ones(2 * 2 * 33, 1);
  const auto y = run(ones, 0.5, {4, 8}, 2, 33), swapped = run(ones, 0.5, {8, 4}, 2, 33);
  const auto half = static_cast<std::ptrdiff_t>(y.size() / 2);
  EXPECT_TRUE(std::equal(y.begin(), y.begin() + half, swapped.begin() + half));
  EXPECT_TRUE(std::equal(y.begin() + half, y.end(), swapped.begin()));
  EXPECT_FALSE(std::equal(y.begin(), y.begin() + half, y.begin() + half));
}

TYPED_TEST(DropoutTest, KeepsTheMeanAndZeroProbabilityKeepsAll) {
  const std::vector<TypeParam> ones(4 * 10007, 1);
  double total = 0;
  for (TypeParam value : run(ones, 0.2, {1, 2, 3, 4}, 1, 10007)) total += double(value);
  EXPECT_NEAR(total / static_cast<double>(ones.size()), 1, 0.01);  // standard error 0.0025
  EXPECT_TRUE(same_bits(run(ones, 0, {1, 2, 3, 4}, 1, 10007), ones));
}

TYPED_TEST(DropoutTest, SameBitsOnAnyThreads) {
  const auto x = random_values<TypeParam>(600 * 65, 1);
  expect_same_on_any_threads([&] { return run(x, 0.1, {1, 2, 3}, 200, 65); });
}

}  // namespace
}  // namespace longhaul::kernels
