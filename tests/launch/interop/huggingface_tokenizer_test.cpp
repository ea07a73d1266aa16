#include "launch/interop/huggingface_tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/io/file.h"
#include "data/tokenizers/byte_tokenizer.h"
#include "tests/support/source_tree.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

const fs::path kGpt2 = shared_data() / "gpt2-bpe";

class HuggingFaceTokenizer : public ::testing::Test {
 protected:
  fs::path directory_ = fs::temp_directory_path() / ("longhaul-hf-tokenizer-" + std::to_string(getpid()));
  void SetUp() override { fs::create_directories(directory_); }
  void TearDown() override { fs::remove_all(directory_); }
};

TEST_F(HuggingFaceTokenizer, DirectoriesWithoutFilesHaveNone) {
  EXPECT_EQ(import_huggingface_tokenizer(directory_), nullptr);
  write_file_durably(directory_ / "vocab.json", "{}");  // alone it is not a tokenizer
  EXPECT_EQ(import_huggingface_tokenizer(directory_), nullptr);
}

TEST_F(HuggingFaceTokenizer, RawBytesHaveNoHuggingFaceForm) {
  EXPECT_FALSE(export_huggingface_tokenizer(ByteTokenizer(), directory_));
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(HuggingFaceTokenizer, BytePairFilesGoOutAndComeBack) {
  if (!fs::exists(kGpt2 / "encoder.json")) GTEST_SKIP() << "needs ../shared/data/gpt2-bpe";
  fs::copy_file(kGpt2 / "encoder.json", directory_ / "vocab.json");
  fs::copy_file(kGpt2 / "vocab.bpe", directory_ / "merges.txt");
  const auto tokenizer = import_huggingface_tokenizer(directory_);
  ASSERT_NE(tokenizer, nullptr);
  const fs::path out = directory_ / "out";
  fs::create_directories(out);

  EXPECT_TRUE(export_huggingface_tokenizer(*tokenizer, out));

  EXPECT_EQ(read_file(out / "vocab.json"), read_file(directory_ / "vocab.json"));
  EXPECT_EQ(read_file(out / "merges.txt"), read_file(directory_ / "merges.txt"));
  EXPECT_NE(read_file(out / "tokenizer_config.json").find("<|endoftext|>"), std::string::npos);
  EXPECT_EQ(import_huggingface_tokenizer(out)->fingerprint(), tokenizer->fingerprint());
}

}  // namespace
}  // namespace longhaul
