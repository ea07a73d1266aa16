#include "core/control/selective_average.h"

#include <gtest/gtest.h>

#include <limits>

namespace longhaul {
namespace {

const SelectiveAverage::Options kOptions{.zone = 5, .least_gain = 0.01, .start_step = 30};

ValidationMeasure validation(double cross_entropy) {
  return {.finished = true, .data = "valid", .cross_entropy = cross_entropy};
}

TEST(SelectiveAverage, AveragesExactlyTheIntendedSnapshots) {
  SelectiveAverage average(kOptions);
  struct Point {
    int64_t step;
    double cross_entropy, weights;
    bool taken;
  };
  const Point points[] = {
      {10, 5.5, 100, false},   // outside the zone
      {20, 5.0, 200, false},   // the entry
      {25, 4.8, 300, false},   // before the start step
      {30, 4.96, 400, false},  // gain 0.008
      {40, 4.94, 1, true},     // gain 0.012
      {50, 4.95, 500, false},  // gain 0.01 does not exceed the threshold
      {60, 5.20, 600, false},  // left the zone
      {70, 4.90, 4, true},     // measured against the first entry
      {80, 4.70, 10, true},
  };
  double mean = -77;  // what was there before the first snapshot
  for (const Point& point : points) {
    const SelectiveAverage::Decision decision = average.decide(point.step, validation(point.cross_entropy));
    EXPECT_EQ(decision.take, point.taken) << decision.line();
    if (decision.take) mean += decision.weight * (point.weights - mean);
  }
  EXPECT_DOUBLE_EQ(mean, (1.0 + 4 + 10) / 3);
  EXPECT_EQ(average.state().snapshots, 3);
  EXPECT_EQ(average.state().entry, 5);
}

TEST(SelectiveAverage, WeightsAreOneOverN) {
  SelectiveAverage average(kOptions);
  average.decide(1, validation(5));
  for (int64_t n = 1; n < 8; ++n) {
    const SelectiveAverage::Decision decision = average.decide(30 + n, validation(4));
    EXPECT_TRUE(decision.take);
    EXPECT_EQ(decision.weight, 1.0 / static_cast<double>(n));
    EXPECT_DOUBLE_EQ(decision.gain, 0.2);
  }
}

TEST(SelectiveAverage, UnusableValidationsChangeNothing) {
  SelectiveAverage average(kOptions);
  average.decide(1, validation(5));
  const SelectiveAverage::State before = average.state();
  ValidationMeasure other = validation(4), unfinished = validation(4);
  other.data = "other";
  unfinished.finished = false;
  for (const ValidationMeasure& bad : {other, unfinished, validation(std::numeric_limits<double>::quiet_NaN())}) {
    const SelectiveAverage::Decision decision = average.decide(50, bad);
    EXPECT_FALSE(decision.take);
    EXPECT_EQ(average.state(), before);
    EXPECT_NE(decision.line().find("no snapshot"), std::string::npos) << decision.line();
  }
}

TEST(SelectiveAverage, RestoredStateContinuesAlike) {
  SelectiveAverage first(kOptions), second(kOptions);
  for (const int64_t step : {20, 30, 40}) first.decide(step, validation(5.3 - 0.01 * static_cast<double>(step)));
  second.set_state(first.state());
  for (const int64_t step : {50, 60}) {
    EXPECT_EQ(first.decide(step, validation(4.5)).line(), second.decide(step, validation(4.5)).line());
  }
  EXPECT_EQ(first.state(), second.state());
}

}  // namespace
}  // namespace longhaul
