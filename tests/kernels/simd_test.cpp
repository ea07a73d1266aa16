#include "kernels/cpu/simd.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul::kernels::simd {
namespace {

/// This test is compiled for the base instruction set: it checks the arithmetic without fma. The kernel tests check the
/// variant that the loader picks.
template <typename T>
class SimdTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SimdTest, ElementTypes);

template <typename T>
double ulps(T value, long double exact) {
  const T nearest = static_cast<T>(exact);
  const long double spacing = static_cast<long double>(std::nextafter(std::abs(nearest), T(INFINITY))) -
                              static_cast<long double>(std::abs(nearest));
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / spacing);
}

TYPED_TEST(SimdTest, ExpIsWithinTwoUlps) {
  using T = TypeParam;
  const double low = ExpConstants<T>::kLowest, high = ExpConstants<T>::kHighest;
  double worst = 0;
  for (int i = 0; i <= 400000; ++i) {
    const T x = static_cast<T>(low + (high - low) * i / 400000.0);
    if (x < ExpConstants<T>::kLowest || x > ExpConstants<T>::kHighest) continue;
    worst = std::max(worst, ulps<T>(exp(broadcast(x))[0], std::exp(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 2.0);
}

TYPED_TEST(SimdTest, ExpAtItsEdges) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  EXPECT_EQ(exp(broadcast(T(0)))[0], T(1));
  EXPECT_EQ(exp(broadcast(-infinity))[0], T(0));
  EXPECT_EQ(exp(broadcast(infinity))[0], infinity);
  EXPECT_EQ(exp(broadcast(T(-1e30)))[0], T(0));
  EXPECT_EQ(exp(broadcast(T(1e30)))[0], infinity);
  EXPECT_TRUE(std::isfinite(exp(broadcast(ExpConstants<T>::kHighest))[0]));
  EXPECT_EQ(exp(broadcast(std::nextafter(ExpConstants<T>::kHighest, infinity)))[0], infinity);
  EXPECT_GT(exp(broadcast(ExpConstants<T>::kLowest))[0], T(0));
  EXPECT_TRUE(std::isnan(exp(broadcast(T(NAN)))[0]));
  EXPECT_TRUE(std::isnan(exp(broadcast(-T(NAN)))[0]));
}

TYPED_TEST(SimdTest, SigmoidIsWithinFourUlps) {
  using T = TypeParam;
  double worst = 0;
  for (int i = -80000; i <= 80000; ++i) {
    const T x = static_cast<T>(i / 1000.0);
    worst = std::max(worst, ulps<T>(sigmoid(broadcast(x))[0], 1 / (1 + std::exp(-static_cast<long double>(x)))));
  }
  EXPECT_LT(worst, 4.0);
  EXPECT_EQ(sigmoid(broadcast(T(-1e30)))[0], T(0));
  EXPECT_EQ(sigmoid(broadcast(T(1e30)))[0], T(1));
}

TYPED_TEST(SimdTest, TailsHaveTheBitsOfFullVectors) {
  using T = TypeParam;
  constexpr int64_t kCount = 67;
  T x[kCount], whole[kCount], part[kCount];
  for (int64_t i = 0; i < kCount; ++i) x[i] = static_cast<T>(std::sin(static_cast<double>(i) * 1.7) * 5);
  const auto f = [](auto v) { return sigmoid(v) * exp(v); };
  transform(whole, kCount, f, x);
  for (int64_t i = 0; i < kCount; ++i) {
    transform(part, 1, f, x + i);
    EXPECT_EQ(part[0], whole[i]) << i;
  }
}

TYPED_TEST(SimdTest, TransformSumCoversEveryElementOnce) {
  using T = TypeParam;
  T x[70];
  for (int64_t count = 0; count <= 70; ++count) {
    for (int64_t i = 0; i < 70; ++i) x[i] = i < count ? T(1) : T(1000);
    const T total = transform_sum<T>(
        count, [](auto v) { return v + T(2); }, x);
    EXPECT_EQ(total, static_cast<T>(3 * count)) << count;
  }
}

TYPED_TEST(SimdTest, BroadcastKeepsSignedZeroAndMaxTakesTheNumber) {
  using T = TypeParam;
  EXPECT_TRUE(std::signbit(broadcast(T(-0.0))[0]));
  EXPECT_EQ(max(broadcast(T(NAN)), broadcast(T(3)))[0], T(3));
  EXPECT_EQ(sum(broadcast(T(2))), static_cast<T>(2 * kWidth<T>));
}

}  // namespace
}  // namespace longhaul::kernels::simd
