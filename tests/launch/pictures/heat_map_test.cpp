#include "launch/pictures/heat_map.h"

#include <gmock/gmock.h>

#include <cmath>

namespace longhaul {
namespace {

int64_t count(const std::string& text, const std::string& words) {
  int64_t found = 0;
  for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++found;
  return found;
}

std::string drawn(const HeatMap& map) {
  SvgPicture picture(600, 500);
  draw_heat_map(picture, {80, 40}, map);
  return picture.document();
}

TEST(HeatMap, ColoursRunFromBlueOverWhiteToRed) {
  const HeatMap map{.least = -2, .most = 4};
  EXPECT_EQ(heat_colour(map, 0), "#ffffff");
  EXPECT_EQ(heat_colour(map, -2), "#084594");
  EXPECT_EQ(heat_colour(map, 4), "#a50f15");
  EXPECT_EQ(heat_colour(map, 400), "#a50f15");
  const HeatMap positive{.least = 0, .most = 1};
  EXPECT_EQ(heat_colour(positive, 0), "#ffffff");
  EXPECT_EQ(heat_colour(positive, 1), "#084594");
  EXPECT_EQ(heat_colour({.least = 3, .most = 3}, 3), "#ffffff");
}

TEST(HeatMap, ShowsAnElementOfEveryShare) {
  EXPECT_EQ(shown_element(0, 96, 96), 0);
  EXPECT_EQ(shown_element(95, 96, 96), 95);
  EXPECT_EQ(shown_element(0, 96, 960), 5);
  EXPECT_EQ(shown_element(95, 96, 960), 955);
}

TEST(HeatMap, DrawsOneCellPerElementAndNoneWhereThereIsNoValue) {
  const HeatMap map{.title = "B", .rows = 3, .columns = 3, .value = [](int64_t row, int64_t column) {
                      return column > row ? NAN : 1.0 * (row == column);
                    }};
  const std::string picture = drawn(map);
  EXPECT_THAT(picture, testing::HasSubstr("fill=\"#084594\" d=\"M0 0h1v1h-1zM1 1h1v1h-1zM2 2h1v1h-1z\""));
  EXPECT_THAT(picture, testing::HasSubstr("fill=\"#ffffff\" d=\"M0 1h1v1h-1zM0 2h1v1h-1zM1 2h1v1h-1z\""));
}

TEST(HeatMap, OfALargeMatrixStaysSmall) {
  const std::string picture =
      drawn({.title = "large",
             .rows = 1 << 20,
             .columns = 1 << 20,
             .value = [](int64_t row, int64_t column) { return std::sin(1.0 * (row + column)); },
             .least = -1});
  EXPECT_EQ(count(picture, "h1v1h-1z"), 96 * 96);
  EXPECT_LT(picture.size(), 200'000u);
}

}  // namespace
}  // namespace longhaul
