// A line chart: axes with round numbers, one colour per curve, a legend.
#pragma once

#include <string>
#include <vector>

#include "launch/pictures/svg.h"

namespace longhaul {

/// x and y in the units of the axes; values that are not finite are left out.
struct ChartCurve {
  std::string name;
  std::vector<SvgPoint> points;
  std::vector<std::vector<SvgPoint>> single = {};  ///< drawn thinly in the same colour: what `points` is the mean of
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartCurve> curves;
};

/// The SVG file.
std::string draw_chart(const Chart& chart);

/// The curve number i has this colour; they repeat after six.
std::string chart_colour(size_t curve);

/// 3 to 9 round numbers (1, 2 or 5 times a power of ten apart) inside [least, most]; least < most.
std::vector<double> axis_ticks(double least, double most);

/// Of an axis: "0", "1.5M", "20k", "5.25", without zeros at the end.
std::string axis_number(double value);

}  // namespace longhaul
