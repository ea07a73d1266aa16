#include "launch/study/sample_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace longhaul {
namespace {

TEST(SampleStatistics, AreMeanAndDeviationWithOneLess) {
  const SampleStatistics statistics = statistics_of(std::vector<double>{2, 4, 9});
  EXPECT_DOUBLE_EQ(statistics.mean, 5);
  EXPECT_DOUBLE_EQ(statistics.deviation, std::sqrt((9 + 1 + 16) / 2.0));
  EXPECT_DOUBLE_EQ(statistics_of(std::vector<double>{3.5}).mean, 3.5);
  EXPECT_EQ(statistics_of(std::vector<double>{3.5}).deviation, 0);
  EXPECT_TRUE(std::isnan(statistics_of({}).mean));
}

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(median_of(std::vector<double>{9, 1, 5}), 5);
  EXPECT_EQ(median_of(std::vector<double>{9, 1, 5, 6}), 5.5);
  EXPECT_TRUE(std::isnan(median_of({})));
}

}  // namespace
}  // namespace longhaul
