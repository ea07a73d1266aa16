#include "data/shards/dataset_builder.h"

#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <map>

#include "data/shards/dataset.h"
#include "data/shards/writer_lock.h"
#include "data/tokenizers/byte_pair_tokenizer.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

std::string paragraphs(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    text +=
        fmt::format("paragraph {} of the text\nwith {} words\n\n", i, std::string(static_cast<size_t>(i % 50), 'w'));
  }
  return text;
}

std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) files[entry.path().filename()] = read_file(entry.path());
  return files;
}

class DatasetBuilder : public testing::Test {
 protected:
  BuildOptions options(const std::string& text, const std::string& output = "set") {
    write_text(directory_ / "in.txt", text);
    BuildOptions options;
    options.inputs = {directory_ / "in.txt"};
    options.output = directory_ / output;
    options.shares = {80, 10, 10};
    options.shard_tokens = 2000;
    return options;
  }
  TemporaryDirectory directory_;
  ByteTokenizer tokenizer_;
};

TEST_F(DatasetBuilder, WorkersAndBlockSizeChangeNoByte) {
  std::string text = paragraphs(400) + "bad \xFF byte\r\n\r\n" + std::string("nul\0", 4) + "\n\nlast \xE2\x82";
  BytePairTokenizer tokenizer(BytePairTables::from_files(golden("tiny-encoder.json"), golden("tiny-vocab.bpe")));
  BuildOptions build = options(text, "one");
  const BuildResult expected = build_dataset(build, tokenizer);
  EXPECT_GT(expected.manifest.shards.size(), 4u);
  const auto files = contents(build.output);
  EXPECT_FALSE(files.contains("writer.lock"));
  for (const int64_t workers : {1, 2, 3}) {
    for (const int64_t block : {1, 2, 3, 4096}) {
      build.workers = workers;
      build.records.block_bytes = block;
      build.output = directory_ / fmt::format("w{}b{}", workers, block);
      const BuildResult result = build_dataset(build, tokenizer);
      EXPECT_EQ(result.counts, expected.counts);
      EXPECT_TRUE(contents(build.output) == files) << workers << " workers, block " << block;
    }
  }
}

/// Every document followed by '|', by split.
std::map<std::string, std::string> documents_of(const fs::path& directory, const Tokenizer& tokenizer) {
  Dataset dataset(directory, ShardVerification::kChecksum, 2);
  std::map<std::string, std::string> found;
  for (size_t i = 0; i < dataset.manifest().shards.size(); ++i) {
    const ShardEntry& entry = dataset.manifest().shards[i];
    const Shard& shard = dataset.shard(static_cast<int64_t>(i));
    std::vector<int32_t> ids(static_cast<size_t>(entry.tokens));
    shard.read(0, ids);
    for (int64_t d = 0; d < shard.documents(); ++d) {
      const std::vector<int32_t> document(ids.begin() + shard.offsets()[static_cast<size_t>(d)],
                                          ids.begin() + shard.offsets()[static_cast<size_t>(d) + 1]);
      EXPECT_EQ(document.back(), ByteTokenizer::kEndOfText);
      found[entry.split] += tokenizer.decode(document) + "|";
    }
  }
  return found;
}

TEST_F(DatasetBuilder, HoldsEveryDocumentOnceInTheSplitItsDrawNames) {
  const BuildOptions build = options(paragraphs(300));
  build_dataset(build, tokenizer_);
  std::map<std::string, std::string> expected;
  for (int64_t i = 0; i < 300; ++i) {
    expected[kSplitNames[static_cast<size_t>(split_of_document(0, i, build.shares))]] +=
        fmt::format("paragraph {} of the text\nwith {} words|", i, std::string(static_cast<size_t>(i % 50), 'w'));
  }
  EXPECT_EQ(documents_of(build.output, tokenizer_), expected);
}

TEST_F(DatasetBuilder, FilesCanBeOneSplitAloneAndEveryLineADocument) {
  BuildOptions build = options(" = Title = \n \n first . \n\nsecond\n");
  write_text(directory_ / "valid.txt", " \nseen later\n");
  write_text(directory_ / "test.txt", "never seen");
  build.inputs.push_back(directory_ / "valid.txt");
  build.inputs.push_back(directory_ / "test.txt");
  build.input_splits = {std::nullopt, 1, 2};
  build.shares = {1, 0, 0};
  build.records.separator = Separator::kLine;
  for (const int64_t workers : {1, 3}) {
    build.workers = workers;
    build.output = directory_ / fmt::format("lines{}", workers);
    const BuildResult result = build_dataset(build, tokenizer_);
    EXPECT_THAT(result.manifest.notes, testing::HasSubstr("1 of 3 files valid alone, 1 of 3 files test alone"));
    const std::map<std::string, std::string> expected = {
        {"train", " = Title = | first . |second|"}, {"valid", "seen later|"}, {"test", "never seen|"}};
    EXPECT_EQ(documents_of(build.output, tokenizer_), expected);
  }
  write_text(directory_ / "valid.txt", " \n");
  build.output = directory_ / "blank";
  EXPECT_THAT(user_error_of([&] { build_dataset(build, tokenizer_); }), testing::HasSubstr("split valid has 0 tokens"));
}

TEST(SplitOfDocument, FollowsTheSharesAndNeverTakesAnEmptyOne) {
  std::array<int64_t, 3> counts{};
  for (int64_t i = 0; i < 20000; ++i) ++counts[static_cast<size_t>(split_of_document(5, i, {70, 20, 10}))];
  EXPECT_NEAR(static_cast<double>(counts[0]), 14000, 300);
  EXPECT_NEAR(static_cast<double>(counts[1]), 4000, 300);
  EXPECT_NEAR(static_cast<double>(counts[2]), 2000, 300);
  for (int64_t i = 0; i < 2000; ++i) {
    EXPECT_EQ(split_of_document(1, i, {1, 0, 0}), 0);
    EXPECT_EQ(split_of_document(1, i, {0, 1, 0}), 1);
    EXPECT_EQ(split_of_document(1, i, {0, 0, 3}), 2);
    EXPECT_NE(split_of_document(1, i, {1, 0, 1}), 1);
  }
}

TEST(SplitShares, AreThreeNumbers) {
  EXPECT_EQ(parse_split_shares("98,1,1"), (SplitShares{98, 1, 1}));
  EXPECT_EQ(parse_split_shares("0.5,0,0.5"), (SplitShares{0.5, 0, 0.5}));
  for (const char* bad :
       {"", "1", "1,2", "1,2,3,4", "1,-1,1", "0,0,0", "a,b,c", "1,,1", "nan,1,1", "inf,1,1", "1 ,1,1"}) {
    EXPECT_NE(user_error_of([&] { parse_split_shares(bad); }).find("--split"), std::string::npos) << bad;
  }
}

TEST_F(DatasetBuilder, AnEmptySplitThatWasAskedForIsAnError) {
  BuildOptions build = options(paragraphs(5));
  build.shares = {9998, 1, 1};
  const auto message = user_error_of([&] { build_dataset(build, tokenizer_); });
  EXPECT_NE(message.find("split valid has 0 tokens"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(build.output / Manifest::kFileName));
  build.shares = {1, 0, 0};  // the leftover of the failed try is replaced
  EXPECT_EQ(build_dataset(build, tokenizer_).counts.kept, 5);
}

TEST_F(DatasetBuilder, NoDocumentAtAllIsAnError) {
  for (const char* text : {"", "\n\n \n", "\r\n"}) {
    const BuildOptions build = options(text);
    EXPECT_NE(user_error_of([&] { build_dataset(build, tokenizer_); }).find("no document"), std::string::npos);
  }
}

TEST_F(DatasetBuilder, FinishedAndForeignDirectoriesAreRefused) {
  BuildOptions build = options(paragraphs(100));
  build_dataset(build, tokenizer_);
  const auto before = contents(build.output);
  EXPECT_NE(user_error_of([&] { build_dataset(build, tokenizer_); }).find("finished dataset"), std::string::npos);
  EXPECT_TRUE(contents(build.output) == before);
  build.output = directory_ / "foreign";
  fs::create_directory(build.output);
  write_text(build.output / "train-00000.h5.tmp", "leftover");
  write_text(build.output / "thesis.txt", "precious");
  EXPECT_NE(user_error_of([&] { build_dataset(build, tokenizer_); }).find("thesis.txt"), std::string::npos);
  EXPECT_EQ(contents(build.output).size(), 2u);
}

TEST_F(DatasetBuilder, ASecondWriterIsRefused) {
  const BuildOptions build = options(paragraphs(100));
  fs::create_directory(build.output);
  const File other = File::create(build.output / "writer.lock");
  ASSERT_EQ(::flock(other.descriptor(), LOCK_EX | LOCK_NB), 0);
  EXPECT_NE(user_error_of([&] { build_dataset(build, tokenizer_); }).find("another"), std::string::npos);
}

TEST_F(DatasetBuilder, AKilledWriterLeavesNothingThatCanBeRead) {
  BuildOptions build = options(paragraphs(400), "clean");
  build.shard_tokens = 1500;
  build_dataset(build, tokenizer_);
  const auto expected = contents(build.output);
  build.output = directory_ / "killed";
  for (int documents = 1; documents <= 20; ++documents) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {  // dies in the middle of its writing, without any clean-up
      TokenizerRecord record;
      record.vocab_size = 257;
      const WriterLock lock(build.output);
      ShardWriter writer(build.output, "train", record, 100);
      for (int d = 0; d < documents; ++d) writer.add_document(std::vector<int32_t>(37, 65));
      _exit(9);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(WEXITSTATUS(status), 9);
    const auto message = user_error_of([&] { read_manifest(build.output); });
    EXPECT_NE(message.find("shard is being written"), std::string::npos) << message;
  }
  build_dataset(build, tokenizer_);
  EXPECT_TRUE(contents(build.output) == expected);
}

TEST_F(DatasetBuilder, AWorkersErrorNamesFileAndLine) {
  write_text(directory_ / "a.jsonl", "{\"text\": \"good\"}\nbroken\n");
  BuildOptions build = options("");
  build.inputs = {directory_ / "a.jsonl"};
  build.workers = 3;
  EXPECT_NE(user_error_of([&] { build_dataset(build, tokenizer_); }).find("a.jsonl: line 2"), std::string::npos);
}

}  // namespace
}  // namespace longhaul
