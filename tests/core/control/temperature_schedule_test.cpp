#include "core/control/temperature_schedule.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/error.h"

namespace longhaul {
namespace {

const TemperatureSchedule::Options kOptions{.first = 1.5,
                                            .reached = 0.7,
                                            .last = 0.5,
                                            .warm_in_steps = 8,
                                            .cosine_steps = 10,
                                            .zone = 5,
                                            .least_gain = 0.01,
                                            .nudge = 0.25,
                                            .lowest = 0.55,
                                            .highest = 1.2};

ValidationMeasure validation(double cross_entropy) {
  return {.finished = true, .data = "valid", .cross_entropy = cross_entropy};
}

TEST(TemperatureSchedule, WarmsInThenFollowsACosineWithinItsRange) {
  const TemperatureSchedule schedule(kOptions);
  EXPECT_DOUBLE_EQ(schedule.temperature(1), 1.2);  // 1.4 before the range
  EXPECT_DOUBLE_EQ(schedule.temperature(4), 1.1);
  EXPECT_DOUBLE_EQ(schedule.temperature(8), 0.7);
  EXPECT_DOUBLE_EQ(schedule.temperature(13), 0.6);
  EXPECT_DOUBLE_EQ(schedule.temperature(18), 0.55);  // 0.5 before the range
  EXPECT_DOUBLE_EQ(schedule.temperature(10000), 0.55);
}

TEST(TemperatureSchedule, NudgesUpWhenALateGainIsTooSmall) {
  TemperatureSchedule schedule(kOptions);
  EXPECT_FALSE(schedule.decide(validation(6)).nudged);     // no gain yet
  EXPECT_FALSE(schedule.decide(validation(6)).nudged);     // outside the zone
  EXPECT_FALSE(schedule.decide(validation(5)).nudged);     // a gain
  EXPECT_TRUE(schedule.decide(validation(4.995)).nudged);  // too small a gain
  EXPECT_FALSE(schedule.decide(validation(4.98)).nudged);  // enough
  EXPECT_DOUBLE_EQ(schedule.temperature(13), 0.85);
  EXPECT_TRUE(schedule.decide(validation(4.99)).nudged);
  EXPECT_DOUBLE_EQ(schedule.temperature(13), 1.1);
}

TEST(TemperatureSchedule, NudgesNeverLeaveTheRange) {
  TemperatureSchedule schedule(kOptions);
  for (int number = 0; number < 9; ++number) schedule.decide(validation(4));
  EXPECT_DOUBLE_EQ(schedule.temperature(13), 1.2);
  EXPECT_DOUBLE_EQ(schedule.state().nudges, 1.2 - 0.55);
}

TEST(TemperatureSchedule, UnusableValidationsChangeNothing) {
  TemperatureSchedule schedule(kOptions);
  schedule.decide(validation(4));
  const TemperatureSchedule::State before = schedule.state();
  ValidationMeasure other = validation(4), unfinished = validation(4);
  other.data = "other";
  unfinished.finished = false;
  for (const ValidationMeasure& bad : {other, unfinished, validation(std::numeric_limits<double>::infinity())}) {
    const TemperatureSchedule::Decision decision = schedule.decide(bad);
    EXPECT_FALSE(decision.nudged);
    EXPECT_EQ(schedule.state(), before);
    EXPECT_NE(decision.line().find("no action"), std::string::npos) << decision.line();
  }
}

TEST(TemperatureSchedule, RestoredStateContinuesAlike) {
  TemperatureSchedule first(kOptions), second(kOptions);
  for (const double value : {5.1, 4.9, 4.9}) first.decide(validation(value));
  second.set_state(first.state());
  EXPECT_EQ(first.decide(validation(4.895)).line(), second.decide(validation(4.895)).line());
  EXPECT_EQ(first.state(), second.state());
  EXPECT_EQ(first.temperature(11), second.temperature(11));
}

TEST(TemperatureSchedule, RefusesTemperaturesThatAreNotPositive) {
  EXPECT_THROW(TemperatureSchedule({.last = 0}), Error);
  EXPECT_THROW(TemperatureSchedule({.lowest = 1, .highest = 0.9}), Error);
}

}  // namespace
}  // namespace longhaul
