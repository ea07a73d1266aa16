#include "core/control/validation_measure.h"

#include <gtest/gtest.h>

#include <limits>

namespace longhaul {
namespace {

const ValidationMeasure kGood{.finished = true, .data = "a", .cross_entropy = 5, .entropy = 0.5};

TEST(ValidationMeasure, AFinishedFiniteOneOnTheSameDataIsUsable) {
  EXPECT_EQ(judge(kGood, "a"), Usability::usable);
  EXPECT_EQ(judge(kGood, ""), Usability::usable);
}

TEST(ValidationMeasure, OtherDataUnfinishedAndNotFiniteAreNot) {
  EXPECT_EQ(judge(kGood, "b"), Usability::other_data);
  ValidationMeasure measure = kGood;
  measure.finished = false;
  EXPECT_EQ(judge(measure, "a"), Usability::unfinished);
  for (double ValidationMeasure::*const field : {&ValidationMeasure::cross_entropy, &ValidationMeasure::gate_delta,
                                                 &ValidationMeasure::saturation, &ValidationMeasure::entropy}) {
    measure = kGood;
    measure.*field = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(judge(measure, "a"), Usability::not_finite);
  }
}

}  // namespace
}  // namespace longhaul
