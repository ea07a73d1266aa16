#include "data/text/text_policy.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(TextPolicy, LeavesGoodTextAlone) {
  TextCounts counts;
  const std::string text = "Größe\n日本 \xF0\x9F\x98\x80 lone\rCR\t";
  EXPECT_EQ(clean_text(text, counts), text);
  EXPECT_EQ(counts, TextCounts{});
}

TEST(TextPolicy, ReplacesEachMaximalInvalidPart) {
  struct Case {
    std::string raw, clean;
    int64_t parts;
  };
  const std::string r = "\xEF\xBF\xBD";
  for (const Case& c : {Case{"a\xFF"
                             "b",
                             "a" + r + "b", 1},
                        Case{"\xE2\x82", r, 1}, Case{"\xE2\x82x", r + "x", 1}, Case{"\x80\x80", r + r, 2},
                        Case{"\xC0\xAF", r + r, 2} /* overlong */, Case{"\xED\xA0\x80", r + r + r, 3} /* surrogate */,
                        Case{"\xF4\x90\x80\x80", r + r + r + r, 4}, Case{"\xF0\x9F\x98", r, 1},
                        Case{"\xF0\x9F\xE4\xBD\xA0", r + "你", 1}}) {
    TextCounts counts;
    EXPECT_EQ(clean_text(c.raw, counts), c.clean);
    EXPECT_EQ(counts.invalid_parts, c.parts) << c.clean;
  }
}

TEST(TextPolicy, CountsNulCrLfAndLineSeparators) {
  TextCounts counts;
  EXPECT_EQ(clean_text(std::string("a\0b\r\nc\xE2\x80\xA8"
                                   "d\r",
                                   11),
                       counts),
            "ab\nc\xE2\x80\xA8"
            "d\r");
  EXPECT_EQ(counts.nul_bytes, 1);
  EXPECT_EQ(counts.crlf, 1);
  EXPECT_EQ(counts.line_separators, 1);
}

TEST(TextPolicy, KnowsBlankTexts) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\n\xE2\x80\xA8\xC2\xA0"));
  EXPECT_FALSE(is_blank("  x"));
  EXPECT_FALSE(is_blank("\xE2\x80\x8B"));  // zero-width space is no white space
}

}  // namespace
}  // namespace longhaul
