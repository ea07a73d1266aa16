#include "core/control/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul {
namespace {

const LrSchedule kSchedule{.peak = 0.8, .warmup_steps = 4, .flat_steps = 3, .decay_steps = 8, .floor = 0.1};

TEST(LrSchedule, WarmsUpLinearlyFromTheFirstStep) {
  EXPECT_DOUBLE_EQ(kSchedule.rate(1), 0.2);
  EXPECT_DOUBLE_EQ(kSchedule.rate(3), 0.6);
  EXPECT_DOUBLE_EQ(kSchedule.rate(4), 0.8);
}

TEST(LrSchedule, StaysAtThePeakInTheFlatPart) {
  EXPECT_DOUBLE_EQ(kSchedule.rate(5), 0.8);
  EXPECT_DOUBLE_EQ(kSchedule.rate(7), 0.8);
}

TEST(LrSchedule, FollowsTheCosineToTheFloorAndStaysThere) {
  EXPECT_DOUBLE_EQ(kSchedule.rate(11), 0.8 * (0.1 + 0.9 * 0.5));  // half way
  EXPECT_DOUBLE_EQ(kSchedule.rate(9), 0.8 * (0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5))));
  EXPECT_DOUBLE_EQ(kSchedule.rate(15), 0.08);
  EXPECT_DOUBLE_EQ(kSchedule.rate(1000), 0.08);
}

TEST(LrSchedule, WithoutWarmUpStartsAtThePeakOfTheCosine) {
  const LrSchedule schedule{.peak = 1, .warmup_steps = 0, .flat_steps = 0, .decay_steps = 2, .floor = 0.5};
  EXPECT_DOUBLE_EQ(schedule.rate(1), 0.75);
  EXPECT_DOUBLE_EQ(schedule.rate(2), 0.5);
}

TEST(LrSchedule, NeverReachesZeroAndNeverRisesAfterTheWarmUp) {
  for (int64_t step = 5; step < 40; ++step) {
    EXPECT_GT(kSchedule.rate(step), 0);
    EXPECT_LE(kSchedule.rate(step), kSchedule.rate(step - 1));
  }
}

}  // namespace
}  // namespace longhaul
