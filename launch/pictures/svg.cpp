#include "launch/pictures/svg.h"

#include <fmt/format.h>

namespace longhaul {
namespace {

/// Hundredths of a pixel, without zeros at the end.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string joined(const std::vector<SvgPoint>& points) {
  std::string text;
  for (const SvgPoint& point : points) text += (text.empty() ? "" : " ") + number(point.x) + "," + number(point.y);
  return text;
}

}  // namespace

SvgPicture::SvgPicture(double width, double height) : width_(width), height_(height) {
  rectangle({0, 0}, width, height, "#ffffff");
}

void SvgPicture::rectangle(SvgPoint corner, double width, double height, const std::string& fill) {
  elements_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", number(corner.x),
                           number(corner.y), number(width), number(height), svg_escaped(fill));
}

void SvgPicture::line(const std::vector<SvgPoint>& points, const Stroke& stroke) {
  if (points.size() < 2) return;
  elements_ +=
      fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\"/>\n",
                  joined(points), svg_escaped(stroke.colour), number(stroke.width), number(stroke.opacity));
}

void SvgPicture::cells(SvgPoint origin, double width, double height, const std::vector<SvgPoint>& corners,
                       const std::string& fill) {
  if (corners.empty()) return;
  std::string path;
  for (const SvgPoint& corner : corners) path += fmt::format("M{} {}h1v1h-1z", number(corner.x), number(corner.y));
  elements_ += fmt::format("<path transform=\"translate({} {}) scale({} {})\" fill=\"{}\" d=\"{}\"/>\n",
                           number(origin.x), number(origin.y), number(width), number(height), svg_escaped(fill), path);
}

void SvgPicture::text(SvgPoint at, const std::string& words, const Words& how) {
  const std::string turn =
      how.turned == 0 ? ""
                      : fmt::format(" transform=\"rotate({} {} {})\"", number(how.turned), number(at.x), number(at.y));
  elements_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n",
                           number(at.x), number(at.y), number(how.size), svg_escaped(how.anchor),
                           svg_escaped(how.colour), turn, svg_escaped(words));
}

std::string SvgPicture::document() const {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
      "height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\">\n{2}</svg>\n",
      number(width_), number(height_), elements_);
}

std::string svg_escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&apos;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? std::string("\xEF\xBF\xBD") : std::string(1, c);
    }
  }
  return result;
}

}  // namespace longhaul
