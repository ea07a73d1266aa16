// From a text file to samples through the commands, as a user calls them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/commands/inspect.h"
#include "launch/commands/stream.h"
#include "launch/commands/synth.h"
#include "launch/commands/tokenize.h"
#include "launch/commands/verify.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

using Words = std::vector<std::string>;

class DataCommands : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("document {}\nwith two lines\n\n", i);
    write_text(directory_ / "in.txt", text);
    set_ = (directory_ / "set").string();
  }
  static std::string output_of(const Command& command, const Words& words, int expected_code = 0) {
    testing::internal::CaptureStdout();
    int code = -1;
    try {
      code = command.run(words);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    EXPECT_EQ(code, expected_code);
    return testing::internal::GetCapturedStdout();
  }
  std::string tokenize(const Words& more = {}) {
    Words words = {"--input", (directory_ / "in.txt").string(), "--out", set_, "--split", "80,10,10"};
    words.insert(words.end(), more.begin(), more.end());
    return output_of(tokenize_command(), words);
  }
  std::string refusal(const Words& more) {
    return user_error_of([&] { tokenize(more); });
  }

  TemporaryDirectory directory_;
  std::string set_;
};

TEST_F(DataCommands, TextBecomesSamples) {
  const std::string made = tokenize({"--tokenizer", "bytes", "--shard-tokens", "1000", "--workers", "2"});
  EXPECT_NE(made.find("documents                                   200  kept"), std::string::npos) << made;
  EXPECT_NE(output_of(verify_command(), {set_}).find("good"), std::string::npos);
  const std::string description = output_of(inspect_command(), {set_});
  EXPECT_NE(description.find("bytes, 257 tokens, end of text 256"), std::string::npos) << description;
  EXPECT_NE(description.find("document 0\\nwith two"), std::string::npos) << description;
  EXPECT_NE(output_of(inspect_command(), {set_ + "/train-00001.h5"}).find("split         train"), std::string::npos);

  write_text(directory_ / "run.ini",
             "[model]\ncontext_length = 8\n[data]\ndatasets = " + set_ + "\n[train]\nslots = 2\nrows_per_slot = 3\n");
  const Words stream = {"--config", (directory_ / "run.ini").string(), "--steps"};
  Words all = stream, later = stream;
  all.push_back("0:4");
  later.push_back("2:4");
  const std::string lines = output_of(stream_command(), all), tail = output_of(stream_command(), later);
  EXPECT_TRUE(lines.ends_with(tail));
  std::istringstream reader(lines);
  int64_t sample = 0;
  for (std::string line; std::getline(reader, line); ++sample) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["sample"], sample);
    EXPECT_EQ(json["step"], sample / 6);
    EXPECT_EQ(json["ids"].size(), 8u);
    EXPECT_EQ(json["targets"].size(), 8u);
  }
  EXPECT_EQ(sample, 24);
}

TEST_F(DataCommands, SplitsCanBeFilesOfTheirOwn) {
  write_text(directory_ / "valid.txt", "one line\n \nanother\n");
  const Words words = {"--input",
                       (directory_ / "in.txt").string(),
                       "--valid-input",
                       (directory_ / "valid.txt").string(),
                       "--out",
                       set_,
                       "--document-separator",
                       "line",
                       "--tokenizer",
                       "bytes"};
  const std::string report = output_of(tokenize_command(), words);
  EXPECT_THAT(report, testing::ContainsRegex("train +[0-9]+ tokens +400 documents"));
  EXPECT_THAT(report, testing::ContainsRegex("valid +17 tokens +2 documents"));  // 8 + 7 bytes, 2 ends of text
  EXPECT_THAT(report, testing::Not(testing::HasSubstr("test ")));
}

TEST_F(DataCommands, VerifyNamesEachBadFileAndGoesOn) {
  tokenize({"--tokenizer", "bytes", "--shard-tokens", "1000"});
  fs::resize_file(set_ + "/train-00001.h5", 100);
  write_text(set_ + "/valid-00000.h5", "text");
  const std::string report = output_of(verify_command(), {set_}, 2);
  EXPECT_NE(report.find("train-00001.h5"), std::string::npos) << report;
  EXPECT_NE(report.find("valid-00000.h5"), std::string::npos) << report;
  EXPECT_NE(report.find("2 problems"), std::string::npos) << report;
}

TEST_F(DataCommands, GptAndSentencePieceTakeTheirOwnOptions) {
  tokenize(
      {"--tokenizer", "gpt2", "--encoder-json", golden("tiny-encoder.json"), "--vocab-bpe", golden("tiny-vocab.bpe")});
  EXPECT_NE(output_of(verify_command(), {set_}).find("good"), std::string::npos);
  set_ += "2";
  EXPECT_NE(tokenize({"--tokenizer", "sentencepiece", "--train-sentencepiece", "290"}).find("sentencepiece with 290"),
            std::string::npos);
  EXPECT_NE(output_of(verify_command(), {set_}).find("good"), std::string::npos);
  set_ += "3";
  EXPECT_NE(refusal({"--tokenizer", "bytes", "--model", "x"}).find("--model belongs to"), std::string::npos);
  EXPECT_NE(refusal({"--tokenizer", "gpt2"}).find("--encoder-json"), std::string::npos);
  EXPECT_NE(refusal({"--tokenizer", "sentencepiece"}).find("either --model"), std::string::npos);
  EXPECT_NE(refusal({"--tokenizer", "words"}).find("gpt2, sentencepiece or bytes"), std::string::npos);
  EXPECT_NE(refusal({"--tokenizer", "bytes", "--document-separator", "page"}).find("blank-lines"), std::string::npos);
  EXPECT_FALSE(fs::exists(set_));
}

TEST_F(DataCommands, SyntheticRetrievalIsADatasetWithTargetMasks) {
  const auto make = [&](const std::string& name, Words more) {
    Words words = {"retrieval", "--out", (directory_ / name).string(), "--documents", "3000", "--seed", "5"};
    words.insert(words.end(), more.begin(), more.end());
    return output_of(synth_command(), words);
  };
  make("one", {"--workers", "1"});
  make("three", {"--workers", "3"});
  for (const char* file : {"manifest.json", "train-00000.h5", "valid-00000.h5", "test-00000.h5", "tokenizer.bin"}) {
    EXPECT_TRUE(read_file(directory_ / "one" / file) == read_file(directory_ / "three" / file)) << file;
  }
  const std::string one = (directory_ / "one").string();
  EXPECT_NE(output_of(verify_command(), {one}).find("good"), std::string::npos);
  const std::string description = output_of(inspect_command(), {one});
  EXPECT_NE(description.find("words, 19 tokens, end of text 18"), std::string::npos) << description;
  EXPECT_NE(description.find("text   STORE"), std::string::npos) << description;

  make("all", {"--train-targets", "all", "--noise-pattern", "counting", "--pairs", "4"});
  write_text(directory_ / "run.ini", "[model]\ncontext_length = 256\n[data]\ndatasets = " + one + "\n");
  for (const auto& [dataset, masked] : {std::pair{"one", true}, std::pair{"all", false}}) {
    const std::string line =
        output_of(stream_command(), {"--config", (directory_ / "run.ini").string(), "--set",
                                     "data.datasets=" + (directory_ / dataset).string(), "--steps", "0:1"});
    const auto row = nlohmann::json::parse(line.substr(0, line.find('\n')));
    int64_t shown = 0;
    for (size_t t = 0; t < 256; ++t) {
      EXPECT_EQ(row["document_start"][t], 0) << "one document per row";
      const bool value = t >= 1 && t + 1 < 256 && row["ids"][t - 1] == 17;
      const bool expected = t + 1 < 256 && (value || !masked);
      EXPECT_EQ(row["targets"][t], expected ? row["ids"][t + 1] : nlohmann::json(-1)) << t;
      shown += row["targets"][t] != -1;
    }
    EXPECT_GE(shown, masked ? 3 : 255);
  }
}

TEST_F(DataCommands, SynthRefusesWhatItCannotMake) {
  const auto refusal_of = [&](Words more) {
    Words words = {"retrieval", "--out", set_, "--documents", "10"};
    words.insert(words.end(), more.begin(), more.end());
    return user_error_of([&] { synth_command().run(words); });
  };
  EXPECT_NE(refusal_of({"--pairs", "2:99"}).find("--pairs 2:99"), std::string::npos);
  EXPECT_NE(refusal_of({"--queries", "x"}).find("a count like 8 or a range like 2:5"), std::string::npos);
  EXPECT_NE(refusal_of({"--noise-pattern", "pink"}).find("random or counting"), std::string::npos);
  EXPECT_NE(refusal_of({"--length", "10"}).find("--length 10"), std::string::npos);
  EXPECT_FALSE(fs::exists(set_));
  EXPECT_NE(user_error_of([&] {
              synth_command().run({"sorting", "--out", set_});
            }).find("expected retrieval"),
            std::string::npos);
  EXPECT_NE(user_error_of([&] {
              synth_command().run({"retrieval", "--out", set_});
            }).find("--documents"),
            std::string::npos);
}

TEST_F(DataCommands, RefuseWhatTheyCannotRead) {
  EXPECT_NE(user_error_of([&] { inspect_command().run({set_}); }).find("no such file"), std::string::npos);
  EXPECT_NE(user_error_of([&] { inspect_command().run({directory_ / "in.txt"}); }).find("neither a dataset"),
            std::string::npos);
  EXPECT_NE(user_error_of([&] { verify_command().run({directory_.path()}); }).find("manifest.json"), std::string::npos);
  for (const char* steps : {"", "3", "3:3", "4:2", "-1:2", "a:b", "0:1:2"}) {
    EXPECT_NE(user_error_of([&] { stream_command().run({"--steps", steps}); }).find("--steps"), std::string::npos);
  }
}

}  // namespace
}  // namespace longhaul
