#include "data/tokenizers/byte_pair_tokenizer.h"

#include <nlohmann/json.hpp>

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

std::shared_ptr<const BytePairTables> tiny_tables() {
  return BytePairTables::from_files(golden("tiny-encoder.json"), golden("tiny-vocab.bpe"));
}

// Merges by the definition: the lowest rank, leftmost first, over and over.
std::vector<int32_t> merge_slowly(const BytePairTables& tables, std::vector<int32_t> ids) {
  for (;;) {
    Merge best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge merge = tables.merge(ids[i], ids[i + 1]);
      if (merge.rank < best.rank) best = merge, at = i;
    }
    if (best.rank == Merge::kNone) return ids;
    ids[at] = best.id;
    ids.erase(ids.begin() + static_cast<int64_t>(at) + 1);
  }
}

TEST(BytePairTokenizer, EqualsTheReferenceIdForId) {
  BytePairTokenizer tokenizer(tiny_tables());
  std::ifstream lines(golden("tiny-ids.jsonl"));
  int64_t checked = 0;
  for (std::string line; std::getline(lines, line); ++checked) {
    const auto json = nlohmann::json::parse(line);
    const std::string text = json["text"];
    const std::vector<int32_t> expected = json["ids"];
    EXPECT_EQ(tokenizer.Tokenizer::encode(text), expected) << text;
    EXPECT_EQ(tokenizer.Tokenizer::encode(text), expected) << "from the cache: " << text;
    EXPECT_EQ(tokenizer.decode(expected), text);
  }
  EXPECT_GT(checked, 15);
}

TEST(BytePairTokenizer, ShortAndLongWordsMergeByTheSameRule) {
  const auto tables = tiny_tables();
  const std::string letters = "theacb nsr";
  uint32_t state = 12345;
  for (int64_t length = 1; length <= 200; length += 3) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < length; ++i) {
      state = state * 1664525u + 1013904223u;
      ids.push_back(tables->byte_id(static_cast<unsigned char>(letters[(state >> 16) % letters.size()])));
    }
    const std::vector<int32_t> expected = merge_slowly(*tables, ids);
    merge_byte_pairs(*tables, ids);
    EXPECT_EQ(ids, expected) << "length " << length;
  }
}

TEST(BytePairTokenizer, EveryByteStringComesBack) {
  BytePairTokenizer tokenizer(tiny_tables());
  std::string text;
  for (int i = 0; i < 3 * 256; ++i) text.push_back(static_cast<char>(i * 37 + i / 256));
  EXPECT_EQ(tokenizer.decode(tokenizer.Tokenizer::encode(text)), text);
  EXPECT_TRUE(tokenizer.Tokenizer::encode("").empty());
}

TEST(BytePairTokenizer, TheTextOfTheEndIsOrdinaryText) {
  BytePairTokenizer tokenizer(tiny_tables());
  for (const int32_t id : tokenizer.Tokenizer::encode("<|endoftext|>")) EXPECT_NE(id, tokenizer.end_of_text());
}

TEST(BytePairTokenizer, RestoredAndClonedAreTheSame) {
  BytePairTokenizer tokenizer(tiny_tables());
  const auto restored = restore_tokenizer(serialise_tokenizer(tokenizer), "here");
  EXPECT_EQ(restored->fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(restored->encode("the cat's mat"), tokenizer.clone()->encode("the cat's mat"));
  EXPECT_EQ(restored->vocab_size(), tokenizer.vocab_size());
}

TEST(BytePairTables, RefuseDamagedFiles) {
  const TemporaryDirectory directory;
  const std::string json = read_file(golden("tiny-encoder.json")), merges = read_file(golden("tiny-vocab.bpe"));
  const auto refuse = [&](const std::string& encoder, const std::string& bpe, const std::string& expected) {
    write_text(directory / "e.json", encoder);
    write_text(directory / "v.bpe", bpe);
    const auto message = user_error_of([&] { BytePairTables::from_files(directory / "e.json", directory / "v.bpe"); });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  };
  refuse("[1, 2]", merges, "encoder.json");
  refuse(json.substr(0, json.size() / 2), merges, "encoder.json");
  refuse(R"({"a": 5, "<|endoftext|>": 0})", merges, "each id of [0, 2) once");
  refuse(R"({"a": 0})", merges, "<|endoftext|>");
  refuse(R"({"a": 0, "<|endoftext|>": 1})", merges, "byte");
  refuse(json, "#version: 0.2\nqqqq zzzz\n", "qqqq");
  refuse(json, "#version: 0.2\nonlyone\n", "two tokens");
}

}  // namespace
}  // namespace longhaul
