#include "core/control/spike_guard.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/error.h"

namespace longhaul {
namespace {

using Decision = SpikeGuard::Decision;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SpikeGuard, SkipsStepsThatAreNotFinite) {
  SpikeGuard guard({});
  EXPECT_EQ(guard.decide(kNan, 1), Decision::skip_nonfinite);
  EXPECT_EQ(guard.decide(1, kInfinity), Decision::skip_nonfinite);
  EXPECT_EQ(guard.decide(1, 1), Decision::apply);
  EXPECT_EQ(guard.state().skipped, 2);
  EXPECT_EQ(guard.state().consecutive, 0);
}

TEST(SpikeGuard, JudgesSpikesOnlyAfterItsWarmUp) {
  SpikeGuard guard({.factor = 3, .warmup = 2});
  EXPECT_EQ(guard.decide(1, 1), Decision::apply);
  EXPECT_EQ(guard.decide(1, 100), Decision::apply);  // still warming up: enters the mean
  EXPECT_EQ(guard.decide(1, 3 * guard.state().mean_norm + 1), Decision::skip_spike);
  EXPECT_EQ(guard.decide(1, 3 * guard.state().mean_norm), Decision::apply);
}

TEST(SpikeGuard, WithoutAFactorAppliesEveryFiniteStep) {
  SpikeGuard guard({.factor = 0, .warmup = 0});
  EXPECT_EQ(guard.decide(1, 1), Decision::apply);
  EXPECT_EQ(guard.decide(1, 1e30), Decision::apply);
}

TEST(SpikeGuard, SkippedNormsDoNotEnterTheMean) {
  SpikeGuard guard({.factor = 2, .warmup = 1});
  guard.decide(1, 1);
  const double mean = guard.state().mean_norm;
  guard.decide(1, 50);
  EXPECT_EQ(guard.state().mean_norm, mean);
}

TEST(SpikeGuard, GivesUpAfterTooManySkipsInARow) {
  SpikeGuard guard({.max_consecutive = 2});
  EXPECT_EQ(guard.decide(kNan, 1), Decision::skip_nonfinite);
  EXPECT_THROW(guard.decide(kNan, 1), Error);
}

TEST(SpikeGuard, RestoredStateDecidesLikeTheOriginal) {
  const SpikeGuard::Options options{.factor = 2, .warmup = 1};
  SpikeGuard first(options);
  first.decide(1, 1);
  first.decide(kNan, 1);
  SpikeGuard second(options);
  second.set_state(first.state());
  EXPECT_EQ(first.decide(1, 5), second.decide(1, 5));
  EXPECT_EQ(first.state(), second.state());
}

}  // namespace
}  // namespace longhaul
