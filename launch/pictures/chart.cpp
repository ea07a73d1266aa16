#include "launch/pictures/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace longhaul {
namespace {

constexpr double kWidth = 800, kHeight = 500;
constexpr double kLeft = 70, kRight = 20, kTop = 40, kBottom = 55;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr double kLegendLine = 18, kLegendWidth = 220;

bool is_finite(const SvgPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  /// Never empty, never a single value.
  void open() {
    if (least > most) *this = {0, 1};
    const double margin = most > least ? 0 : std::max(1e-6, 0.01 * std::abs(least));
    least -= margin;
    most += margin;
  }
};

class Plot {
 public:
  explicit Plot(const Chart& chart) : chart_(chart), picture_(kWidth, kHeight) {
    for (const ChartCurve& curve : chart.curves) {
      take(curve.points);
      for (const auto& points : curve.single) take(points);
    }
    x_.open();
    y_.open();
  }

  std::string draw() {
    axes();
    for (size_t i = 0; i < chart_.curves.size(); ++i) {
      const ChartCurve& curve = chart_.curves[i];
      for (const auto& points : curve.single) line(points, {chart_colour(i), 0.8, 0.35});
      line(curve.points, {chart_colour(i), 2.2, 1});
    }
    legend();
    return picture_.document();
  }

 private:
  void take(const std::vector<SvgPoint>& points) {
    for (const SvgPoint& point : points) {
      if (!is_finite(point)) continue;
      x_.take(point.x);
      y_.take(point.y);
    }
  }
  SvgPoint place(const SvgPoint& value) const {
    return {kLeft + kPlotWidth * (value.x - x_.least) / (x_.most - x_.least),
            kTop + kPlotHeight * (y_.most - value.y) / (y_.most - y_.least)};
  }
  void line(const std::vector<SvgPoint>& points, const SvgPicture::Stroke& stroke) {
    std::vector<SvgPoint> places;
    for (const SvgPoint& point : points) {
      if (is_finite(point)) places.push_back(place(point));
    }
    picture_.line(places, stroke);
  }

  void axes() {
    const SvgPicture::Stroke grid{"#dddddd", 1, 1}, frame{"#333333", 1, 1};
    for (const double x : axis_ticks(x_.least, x_.most)) {
      const double at = place({x, y_.least}).x;
      picture_.line({{at, kTop}, {at, kTop + kPlotHeight}}, grid);
      picture_.text({at, kTop + kPlotHeight + 18}, axis_number(x), {.anchor = "middle"});
    }
    for (const double y : axis_ticks(y_.least, y_.most)) {
      const double at = place({x_.least, y}).y;
      picture_.line({{kLeft, at}, {kLeft + kPlotWidth, at}}, grid);
      picture_.text({kLeft - 8, at + 4}, axis_number(y), {.anchor = "end"});
    }
    picture_.line({{kLeft, kTop}, {kLeft, kTop + kPlotHeight}, {kLeft + kPlotWidth, kTop + kPlotHeight}}, frame);
    picture_.text({kWidth / 2, 24}, chart_.title, {.size = 15, .anchor = "middle"});
    picture_.text({kLeft + kPlotWidth / 2, kHeight - 12}, chart_.x_label, {.anchor = "middle"});
    picture_.text({18, kTop + kPlotHeight / 2}, chart_.y_label, {.anchor = "middle", .turned = -90});
  }

  void legend() {
    const double left = kLeft + kPlotWidth - kLegendWidth;
    for (size_t i = 0; i < chart_.curves.size(); ++i) {
      const double y = kTop + 16 + kLegendLine * static_cast<double>(i);
      picture_.line({{left, y - 4}, {left + 24, y - 4}}, {chart_colour(i), 2.2, 1});
      picture_.text({left + 30, y}, chart_.curves[i].name);
    }
  }

  const Chart& chart_;
  SvgPicture picture_;
  Range x_, y_;
};

}  // namespace

std::string draw_chart(const Chart& chart) { return Plot(chart).draw(); }

std::string chart_colour(size_t curve) {
  static constexpr std::array kColours = {"#4c4c4c", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"};
  return kColours[curve % kColours.size()];
}

std::vector<double> axis_ticks(double least, double most) {
  const double rough = (most - least) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double times = rough / power;
  const double apart = power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  for (double number = std::ceil(least / apart - 1e-9); number * apart <= most + 1e-9 * apart; ++number) {
    ticks.push_back(number * apart);
  }
  return ticks;
}

std::string axis_number(double value) {
  if (std::abs(value) >= 1e9) return fmt::format("{:.6g}G", value / 1e9);
  if (std::abs(value) >= 1e6) return fmt::format("{:.6g}M", value / 1e6);
  if (std::abs(value) >= 1e3) return fmt::format("{:.6g}k", value / 1e3);
  return fmt::format("{:.6g}", value + 0.0);  // never "-0"
}

}  // namespace longhaul
