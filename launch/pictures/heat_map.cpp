#include "launch/pictures/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "launch/pictures/chart.h"

namespace longhaul {
namespace {

using Colour = std::array<double, 3>;
constexpr Colour kWhite = {255, 255, 255}, kBlue = {8, 69, 148}, kRed = {165, 15, 21};
constexpr int kShades = 32;  // of one side of the scale: cells of equal colour are one element of the picture
constexpr double kScaleWidth = 14, kScaleGap = 16;

std::string mixed(const Colour& end, double share) {
  const double step = std::round(share * kShades) / kShades;
  std::array<int, 3> mix{};
  for (size_t i = 0; i < mix.size(); ++i)
    mix[i] = static_cast<int>(std::lround(kWhite[i] + step * (end[i] - kWhite[i])));
  return fmt::format("#{:02x}{:02x}{:02x}", mix[0], mix[1], mix[2]);
}

void draw_cells(SvgPicture& picture, SvgPoint corner, const HeatMap& map) {
  const int64_t rows = std::min(map.rows, kMostHeatCells), columns = std::min(map.columns, kMostHeatCells);
  std::map<std::string, std::vector<SvgPoint>> by_colour;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const double value = map.value(shown_element(row, rows, map.rows), shown_element(column, columns, map.columns));
      if (std::isnan(value)) continue;
      by_colour[heat_colour(map, value)].push_back({static_cast<double>(column), static_cast<double>(row)});
    }
  }
  const double width = map.width / static_cast<double>(columns), height = map.height / static_cast<double>(rows);
  for (const auto& [colour, corners] : by_colour) picture.cells(corner, width, height, corners, colour);
}

void draw_scale(SvgPicture& picture, SvgPoint corner, const HeatMap& map) {
  constexpr int kSteps = 2 * kShades;
  const double height = map.height / kSteps;
  for (int i = 0; i < kSteps; ++i) {
    const double value = map.most + (map.least - map.most) * (i + 0.5) / kSteps;
    picture.rectangle({corner.x, corner.y + i * height}, kScaleWidth, height, heat_colour(map, value));
  }
  picture.text({corner.x + kScaleWidth + 4, corner.y + 10}, axis_number(map.most));
  picture.text({corner.x + kScaleWidth + 4, corner.y + map.height}, axis_number(map.least));
}

void draw_frame(SvgPicture& picture, SvgPoint corner, const HeatMap& map) {
  const double right = corner.x + map.width, bottom = corner.y + map.height;
  picture.line({corner, {right, corner.y}, {right, bottom}, {corner.x, bottom}, corner}, {});
  picture.text({corner.x + map.width / 2, corner.y - 10}, map.title, {.size = 13, .anchor = "middle"});
  picture.text({corner.x + map.width / 2, bottom + 32}, map.column_label, {.anchor = "middle"});
  picture.text({corner.x - 40, corner.y + map.height / 2}, map.row_label, {.anchor = "middle", .turned = -90});
  picture.text({corner.x, bottom + 16}, "0", {.anchor = "middle"});
  picture.text({right, bottom + 16}, std::to_string(map.columns - 1), {.anchor = "middle"});
  picture.text({corner.x - 6, corner.y + 10}, "0", {.anchor = "end"});
  picture.text({corner.x - 6, bottom}, std::to_string(map.rows - 1), {.anchor = "end"});
}

}  // namespace

void draw_heat_map(SvgPicture& picture, SvgPoint corner, const HeatMap& map) {
  draw_cells(picture, corner, map);
  draw_frame(picture, corner, map);
  draw_scale(picture, {corner.x + map.width + kScaleGap, corner.y}, map);
}

int64_t shown_element(int64_t cell, int64_t cells, int64_t size) { return (2 * cell + 1) * size / (2 * cells); }

std::string heat_colour(const HeatMap& map, double value) {
  const double inside = std::clamp(value, map.least, map.most);
  if (map.least < 0 && map.most > 0) {
    return inside < 0 ? mixed(kBlue, inside / map.least) : mixed(kRed, inside / map.most);
  }
  return mixed(kBlue, map.most > map.least ? (inside - map.least) / (map.most - map.least) : 0);
}

}  // namespace longhaul
