#include "launch/pictures/svg.h"

#include <gmock/gmock.h>

namespace longhaul {
namespace {

TEST(SvgEscaped, LeavesNoMarkup) {
  EXPECT_EQ(svg_escaped("a < b & \"c\" > 'd'"), "a &lt; b &amp; &quot;c&quot; &gt; &apos;d&apos;");
  EXPECT_EQ(svg_escaped("tau ± 1"), "tau ± 1");
  EXPECT_EQ(svg_escaped("a\nb\x01"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
}

TEST(SvgPicture, WritesElementsInOrderWithShortNumbers) {
  SvgPicture picture(200, 100);
  picture.line({{1, 2.5}, {10.125, 3}}, {.colour = "#ff0000", .width = 2, .opacity = 0.5});
  picture.line({{1, 2}}, {});
  picture.cells({5, 6}, 2, 3, {{0, 0}, {4, 1}}, "#00ff00");
  picture.text({7, 8}, "x < y", {.anchor = "end", .turned = -90});
  EXPECT_EQ(picture.document(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"100\" viewBox=\"0 0 200 100\" "
            "font-family=\"sans-serif\">\n"
            "<rect x=\"0\" y=\"0\" width=\"200\" height=\"100\" fill=\"#ffffff\"/>\n"
            "<polyline points=\"1,2.5 10.12,3\" fill=\"none\" stroke=\"#ff0000\" stroke-width=\"2\" "
            "stroke-opacity=\"0.5\"/>\n"
            "<path transform=\"translate(5 6) scale(2 3)\" fill=\"#00ff00\" d=\"M0 0h1v1h-1zM4 1h1v1h-1z\"/>\n"
            "<text x=\"7\" y=\"8\" font-size=\"12\" text-anchor=\"end\" fill=\"#222222\" transform=\"rotate(-90 7 8)\">"
            "x &lt; y</text>\n"
            "</svg>\n");
}

}  // namespace
}  // namespace longhaul
