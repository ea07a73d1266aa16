#include "data/tokenizers/byte_tokenizer.h"

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

TEST(ByteTokenizer, EveryByteIsItsOwnId) {
  ByteTokenizer tokenizer;
  const std::string text("a\0\xFF\n", 4);
  const std::vector<int32_t> ids = tokenizer.Tokenizer::encode(text);
  EXPECT_EQ(ids, (std::vector<int32_t>{97, 0, 255, 10}));
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_EQ(tokenizer.vocab_size(), 257);
}

TEST(ByteTokenizer, EndOfTextDecodesToNothing) {
  EXPECT_EQ(ByteTokenizer().decode(std::vector<int32_t>{65, 256}), "A");
}

TEST(ByteTokenizer, RefusesIdsOutsideTheVocabulary) {
  for (const int32_t id : {-1, 257}) {
    const auto message = user_error_of([&] { ByteTokenizer().decode(std::vector<int32_t>{id}); });
    EXPECT_NE(message.find(std::to_string(id)), std::string::npos) << message;
  }
}

TEST(Tokenizer, SerialisedFormGivesAnEqualTokenizer) {
  const ByteTokenizer tokenizer;
  const auto restored = restore_tokenizer(serialise_tokenizer(tokenizer), "here");
  EXPECT_EQ(restored->name(), "bytes");
  EXPECT_EQ(restored->fingerprint(), tokenizer.fingerprint());
}

TEST(Tokenizer, RefusesForeignBytesByName) {
  for (const std::string bytes : {"", "hello", "longhaul-tokenizer 1 klingon\nabc", "longhaul-tokenizer 1 gpt2\nabc",
                                  "longhaul-tokenizer 1 sentencepiece\nabc"}) {
    const auto message = user_error_of([&] { restore_tokenizer(bytes, "run/tokenizer.bin"); });
    EXPECT_NE(message.find("run/tokenizer.bin"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace longhaul
