// GPT-2 ids against token files written by other programs. They lie outside the repository; without them the tests are
// skipped.
#include <cstring>
#include <numeric>
#include <sstream>

#include "data/tokenizers/byte_pair_tokenizer.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

class Gpt2Reference : public testing::Test {
 protected:
  void SetUp() override {
    if (shared_data().empty()) GTEST_SKIP() << "no sample files beside the repository (../shared/data)";
    tokenizer_ = std::make_unique<BytePairTokenizer>(
        BytePairTables::from_files(shared_data() / "gpt2-bpe/encoder.json", shared_data() / "gpt2-bpe/vocab.bpe"));
  }

  static std::vector<int32_t> read_ids(const std::string& name, size_t header_bytes) {
    const std::string bytes = read_file(shared_data() / name);
    std::vector<uint16_t> ids((bytes.size() - header_bytes) / 2);
    std::memcpy(ids.data(), bytes.data() + header_bytes, ids.size() * 2);
    return {ids.begin(), ids.end()};
  }

  std::unique_ptr<BytePairTokenizer> tokenizer_;
};

TEST_F(Gpt2Reference, EqualsTheFilesOfNanoGpt) {
  const std::string text = read_file(shared_data() / "tinyshakespeare/input.txt");  // ASCII: bytes are characters
  const size_t cut = static_cast<size_t>(static_cast<double>(text.size()) * 0.9);
  EXPECT_TRUE(tokenizer_->Tokenizer::encode(text.substr(0, cut)) ==
              read_ids("foreign/nanogpt/shakespeare/train.bin", 0));
  EXPECT_TRUE(tokenizer_->Tokenizer::encode(text.substr(cut)) == read_ids("foreign/nanogpt/shakespeare/val.bin", 0));
}

TEST_F(Gpt2Reference, EqualsTheFilesOfLlmC) {
  const std::string text = read_file(shared_data() / "tinyshakespeare/input.txt");
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t blank = text.find("\n\n", begin);
    const size_t end = blank == std::string::npos ? text.size() : blank + 2;
    ids.push_back(tokenizer_->end_of_text());
    tokenizer_->encode(std::string_view(text).substr(begin, end - begin), ids);
    begin = blank == std::string::npos ? text.size() + 1 : end;
  }
  std::vector<int32_t> expected = read_ids("foreign/llm.c/tiny_shakespeare_val.bin", 1024);
  const std::vector<int32_t> train = read_ids("foreign/llm.c/tiny_shakespeare_train.bin", 1024);
  expected.insert(expected.end(), train.begin(), train.end());
  EXPECT_EQ(ids.size(), expected.size());
  EXPECT_TRUE(ids == expected);
}

TEST_F(Gpt2Reference, EqualsTheGoldenCountsOfManyScripts) {
  std::ifstream table(shared_data() / "gpt2-bpe/golden-counts.tsv");
  int64_t files = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::string name, digest;
    int64_t bytes = 0, count = 0;
    fields >> name >> bytes >> count >> digest;
    const std::string text = read_file(shared_data() / name);
    const std::vector<int32_t> ids = tokenizer_->Tokenizer::encode(text);
    EXPECT_EQ(static_cast<int64_t>(ids.size()), count) << name;
    EXPECT_EQ(tokenizer_->decode(ids), text) << name;
    for (int32_t expected = 0, at = 0; fields >> expected; ++at)
      EXPECT_EQ(ids.at(static_cast<size_t>(at)), expected) << name;
    ++files;
  }
  EXPECT_GE(files, 30);
}

}  // namespace
}  // namespace longhaul
