// A matrix as coloured cells, with a scale of its values beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "launch/pictures/svg.h"

namespace longhaul {

inline constexpr int64_t kMostHeatCells = 96;  ///< along each axis: larger matrices are shown at so many places

struct HeatMap {
  std::string title = {}, row_label = {}, column_label = {};
  int64_t rows = 0, columns = 0;  ///< of the matrix
  /// Element (row, column); NaN stays white.
  std::function<double(int64_t row, int64_t column)> value = {};
  /// The values at the ends of the scale. least < 0 < most: blue, white at 0, red; else white to blue.
  double least = 0, most = 1;
  double width = 384, height = 384;  ///< of the cells together, pixels
};

/// With labels and scale; `corner` is the upper left one of the cells. About 90 pixels to the left and right, 30 above
/// and 40 below belong to it as well.
void draw_heat_map(SvgPicture& picture, SvgPoint corner, const HeatMap& map);

/// The element that cell `cell` of `cells` shows, of `size` elements: the middle one of its share.
int64_t shown_element(int64_t cell, int64_t cells, int64_t size);

/// "#rrggbb" of a value on the scale of `map`; values beyond its ends have the colours of the ends.
std::string heat_colour(const HeatMap& map, double value);

}  // namespace longhaul
