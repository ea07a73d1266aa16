#include "data/tokenizers/sentencepiece_tokenizer.h"

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

std::string train(int64_t vocab_size, int64_t lines = 200) {
  int64_t line = 0;
  return train_sentencepiece(
      [&](std::string& text) {
        text = line % 2 == 0 ? "the quick brown fox jumps over the lazy dog" : "a stitch in time saves nine, they say";
        return line++ < lines;
      },
      vocab_size);
}

TEST(SentencePiece, TrainsToTheSizeAskedForAndKeepsEveryText) {
  SentencePieceTokenizer tokenizer(train(320));
  EXPECT_EQ(tokenizer.vocab_size(), 320);
  for (const std::string text :
       {"the fox", "  two  blanks \n\n\tlines\n", "never seen: Größe 日本 \xF0\x9F\x98\x80", ""}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.Tokenizer::encode(text)), text);
  }
  EXPECT_LT(tokenizer.Tokenizer::encode("the quick brown fox").size(), 12u);
}

TEST(SentencePiece, TheSameLinesGiveTheSameModel) { EXPECT_TRUE(train(300) == train(300)); }

TEST(SentencePiece, EndOfTextIsNeverMadeFromText) {
  SentencePieceTokenizer tokenizer(train(300));
  for (const int32_t id : tokenizer.Tokenizer::encode("a</s>b")) EXPECT_NE(id, tokenizer.end_of_text());
}

TEST(SentencePiece, RestoredIsTheSame) {
  SentencePieceTokenizer tokenizer(train(300));
  const auto restored = restore_tokenizer(serialise_tokenizer(tokenizer), "here");
  EXPECT_EQ(restored->fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(restored->encode("over the dog"), tokenizer.clone()->encode("over the dog"));
}

TEST(SentencePiece, RefusesWhatCannotBe) {
  EXPECT_NE(user_error_of([] { train(100000); }).find("100000"), std::string::npos);
  EXPECT_NE(user_error_of([] { train(300, 0); }).find("no text"), std::string::npos);
  user_error_of([] { SentencePieceTokenizer("no model"); });
  SentencePieceTokenizer tokenizer(train(300));
  EXPECT_NE(user_error_of([&] { tokenizer.decode(std::vector<int32_t>{300}); }).find("300"), std::string::npos);
}

}  // namespace
}  // namespace longhaul
