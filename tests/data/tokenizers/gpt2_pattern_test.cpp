#include "data/tokenizers/gpt2_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longhaul {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = gpt2_word_end(text, begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}
using Words = std::vector<std::string>;

TEST(Gpt2Pattern, SplitsLettersNumbersAndTheRest) {
  EXPECT_EQ(words_of("Hello world 12abc!?x"), (Words{"Hello", " world", " 12", "abc", "!?", "x"}));
}

TEST(Gpt2Pattern, ContractionsAreLowerCaseAndNeedTheirApostropheFirst) {
  EXPECT_EQ(words_of("it's he'll I'LL"), (Words{"it", "'s", " he", "'ll", " I", "'", "LL"}));
  EXPECT_EQ(words_of("'sure"), (Words{"'s", "ure"}));
  EXPECT_EQ(words_of(" 's"), (Words{" '", "s"}));
  EXPECT_EQ(words_of("''s"), (Words{"''", "s"}));
  EXPECT_EQ(words_of("'"), (Words{"'"}));
}

TEST(Gpt2Pattern, ARunOfSpacesLeavesItsLastOneToTheNextWord) {
  EXPECT_EQ(words_of("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words_of("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(words_of("a  "), (Words{"a", "  "}));
  EXPECT_EQ(words_of("\tb"), (Words{"\t", "b"}));
  EXPECT_EQ(words_of(" "), (Words{" "}));
}

TEST(Gpt2Pattern, KnowsUnicodeClasses) {
  EXPECT_EQ(words_of("größe日本"), (Words{"größe日本"}));
  EXPECT_EQ(words_of("x²½"), (Words{"x", "²½"}));                                // No
  EXPECT_EQ(words_of("a\u00A0\u2003b"), (Words{"a", "\u00A0", "\u2003", "b"}));  // spaces, but not the blank
  EXPECT_EQ(words_of("a\u0301"), (Words{"a", "\u0301"}));                        // a combining mark is no letter
}

TEST(Gpt2Pattern, InvalidBytesAreOtherCharactersAndNeverSkipped) {
  EXPECT_EQ(words_of("a\xFF\xC3"), (Words{"a", "\xFF\xC3"}));
  EXPECT_EQ(words_of(std::string("\0\xE2\x82 b", 5)), (Words{std::string("\0\xE2\x82", 3), " b"}));
}

}  // namespace
}  // namespace longhaul
