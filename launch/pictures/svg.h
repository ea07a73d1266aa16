// Pictures as SVG text: lines, cells and words in the coordinates of the picture, x to the right and y downward.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct SvgPoint {
  double x = 0, y = 0;
};

class SvgPicture {
 public:
  struct Stroke {
    std::string colour = "#333333";
    double width = 1;
    double opacity = 1;
  };
  struct Words {
    double size = 12;
    std::string anchor = "start";  ///< of the point: start | middle | end of the words
    double turned = 0;             ///< degrees, clockwise around the point
    std::string colour = "#222222";
  };

  /// White, of that many pixels.
  SvgPicture(double width, double height);

  void rectangle(SvgPoint corner, double width, double height, const std::string& fill);
  /// A line through the points; nothing for fewer than two.
  void line(const std::vector<SvgPoint>& points, const Stroke& stroke);
  /// One colour for many rectangles of equal size: `corners` in units of that size from `origin`.
  void cells(SvgPoint origin, double width, double height, const std::vector<SvgPoint>& corners,
             const std::string& fill);
  void text(SvgPoint at, const std::string& words, const Words& how);
  void text(SvgPoint at, const std::string& words) { text(at, words, Words()); }

  /// The whole file.
  std::string document() const;

 private:
  double width_, height_;
  std::string elements_;
};

/// For use between tags and in attributes: markup characters as entities, control characters (not allowed in XML) as a
/// replacement sign.
std::string svg_escaped(const std::string& text);

}  // namespace longhaul
