#include "launch/pictures/chart.h"

#include <gmock/gmock.h>

#include <cmath>

namespace longhaul {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(AxisTicks, AreRoundNumbersInside) {
  EXPECT_THAT(axis_ticks(0, 10), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(axis_ticks(-1, 1.1), ElementsAre(-1, DoubleNear(-0.5, 1e-12), 0, DoubleNear(0.5, 1e-12), 1));
  EXPECT_THAT(axis_ticks(5.21, 5.9), ElementsAre(DoubleNear(5.3, 1e-12), DoubleNear(5.4, 1e-12), DoubleNear(5.5, 1e-12),
                                                 DoubleNear(5.6, 1e-12), DoubleNear(5.7, 1e-12), DoubleNear(5.8, 1e-12),
                                                 DoubleNear(5.9, 1e-12)));
}

TEST(AxisNumber, IsShort) {
  EXPECT_EQ(axis_number(0), "0");
  EXPECT_EQ(axis_number(-0.0), "0");
  EXPECT_EQ(axis_number(0.30000000000000004), "0.3");
  EXPECT_EQ(axis_number(20000), "20k");
  EXPECT_EQ(axis_number(1.5e6), "1.5M");
}

TEST(Chart, PutsTheExtremesInTheCornersAndLeavesOutWhatIsNotFinite) {
  const std::string picture =
      draw_chart({.title = "a & b", .x_label = "x", .y_label = "y", .curves = {{"up", {{0, 1}, {5, NAN}, {10, 3}}}}});
  EXPECT_THAT(picture, testing::HasSubstr("points=\"70,445 780,40\""));
  EXPECT_THAT(picture, testing::HasSubstr("a &amp; b"));
  EXPECT_THAT(picture, testing::Not(testing::HasSubstr("nan")));
}

TEST(Chart, OfNothingOrOnePointIsAPictureToo) {
  for (const std::vector<SvgPoint>& points : {std::vector<SvgPoint>{}, std::vector<SvgPoint>{{3, 4}}}) {
    const std::string picture = draw_chart({.title = "t", .x_label = "x", .y_label = "y", .curves = {{"c", points}}});
    EXPECT_THAT(picture, testing::EndsWith("</svg>\n"));
    EXPECT_THAT(picture, testing::Not(testing::HasSubstr("nan")));
  }
}

}  // namespace
}  // namespace longhaul
