#include "data/tokenizers/word_tokenizer.h"

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

TEST(WordTokenizer, WordsAreIdsInTheOrderOfTheList) {
  WordTokenizer tokenizer({"zero", "1", "<end>"});
  EXPECT_EQ(tokenizer.vocab_size(), 3);
  EXPECT_EQ(tokenizer.end_of_text(), 2);
  EXPECT_EQ(tokenizer.Tokenizer::encode(" 1 zero\n1\t"), (std::vector<int32_t>{1, 0, 1}));
  EXPECT_EQ(tokenizer.Tokenizer::encode(""), std::vector<int32_t>());
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0, 1, 2, 0}), " zero 1 zero");
}

TEST(WordTokenizer, SurvivesItsSerialisedForm) {
  const WordTokenizer tokenizer({"a", "b", "<end>"});
  const auto restored = restore_tokenizer(serialise_tokenizer(tokenizer), "here");
  EXPECT_EQ(restored->name(), "words");
  EXPECT_EQ(restored->fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(restored->Tokenizer::encode("b a"), (std::vector<int32_t>{1, 0}));
  EXPECT_NE(WordTokenizer({"b", "a", "<end>"}).fingerprint(), tokenizer.fingerprint());
}

TEST(WordTokenizer, RefusesUnknownWordsAndIds) {
  WordTokenizer tokenizer({"a", "b", "<end>"});
  EXPECT_NE(user_error_of([&] { tokenizer.Tokenizer::encode("a c"); }).find("found 'c'"), std::string::npos);
  EXPECT_NE(user_error_of([&] { tokenizer.Tokenizer::encode("<end>"); }).find("'<end>'"), std::string::npos);
  EXPECT_NE(user_error_of([&] { tokenizer.decode(std::vector<int32_t>{3}); }).find("id 3"), std::string::npos);
}

TEST(WordTokenizer, RefusesBadLists) {
  EXPECT_NE(user_error_of([] { WordTokenizer({"a"}); }).find("1 words"), std::string::npos);
  EXPECT_NE(user_error_of([] { WordTokenizer({"a", "a"}); }).find("twice"), std::string::npos);
  EXPECT_NE(user_error_of([] { WordTokenizer({"a", "b c"}); }).find("'b c'"), std::string::npos);
  EXPECT_NE(user_error_of([] { restore_tokenizer("longhaul-tokenizer 1 words\na\n\nb\n", "here"); }).find("here"),
            std::string::npos);
}

}  // namespace
}  // namespace longhaul
