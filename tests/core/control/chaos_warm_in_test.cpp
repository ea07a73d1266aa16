#include "core/control/chaos_warm_in.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.h"

namespace longhaul {
namespace {

TEST(ChaosWarmIn, FollowsTheLogisticMap) {
  ChaosWarmIn chaos({});
  EXPECT_DOUBLE_EQ(chaos.factor(0), 0.75 + 0.25 * 0.721);
  const double first = 3.9 * 0.721 * (1 - 0.721), second = 3.9 * first * (1 - first);
  EXPECT_NEAR(chaos.factor(1), 1 - 0.25 * std::exp(-5e-4) * (1 - first), 1e-15);
  EXPECT_NEAR(chaos.factor(2), 1 - 0.25 * std::exp(-1e-3) * (1 - second), 1e-15);
}

TEST(ChaosWarmIn, StaysWithinItsShrinkingBounds) {
  ChaosWarmIn chaos({});
  for (int64_t step = 0; step < 5000; ++step) {
    const double factor = chaos.factor(step);
    ASSERT_LE(factor, 1);
    ASSERT_GT(factor, 1 - 0.25 * std::exp(-5e-4 * static_cast<double>(step)));
  }
  EXPECT_NEAR(chaos.factor(60000), 1, 1e-12);
}

TEST(ChaosWarmIn, IsAFunctionOfTheStepAlone) {
  ChaosWarmIn straight({}), jumping({});
  double expected = 0;
  for (int64_t step = 0; step <= 37; ++step) expected = straight.factor(step);
  jumping.factor(90);
  EXPECT_EQ(jumping.factor(37), expected);
}

TEST(ChaosWarmIn, RestoredStateContinuesAlike) {
  ChaosWarmIn first({}), second({});
  first.factor(41);
  second.set_state(first.state());
  EXPECT_EQ(first.factor(80), second.factor(80));
  EXPECT_EQ(first.state(), second.state());
}

TEST(ChaosWarmIn, WithoutAmplitudeTheFactorIsOne) {
  ChaosWarmIn chaos({.amplitude = 0});
  for (const int64_t step : {0, 1, 999}) EXPECT_EQ(chaos.factor(step), 1);
}

TEST(ChaosWarmIn, RefusesWhatLeavesTheUnitInterval) {
  EXPECT_THROW(ChaosWarmIn({.growth = 4.1}), Error);
  EXPECT_THROW(ChaosWarmIn({.start = 1}), Error);
  EXPECT_THROW(ChaosWarmIn({.amplitude = 1.5}), Error);
}

}  // namespace
}  // namespace longhaul
