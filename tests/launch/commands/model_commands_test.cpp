// import, export and generate as a user calls them, on a directory that transformers wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/io/safetensors.h"
#include "kernels/error.h"
#include "launch/commands/export.h"
#include "launch/commands/generate.h"
#include "launch/commands/import.h"
#include "tests/support/source_tree.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

const fs::path kGolden = source_root() / "tests/oracle/golden";

class ModelCommands : public ::testing::Test {
 protected:
  fs::path root_ = fs::temp_directory_path() / ("longhaul-model-commands-" + std::to_string(getpid()));
  std::string hf_ = kGolden / "gpt2", run_ = root_ / "run", out_ = root_ / "out", ids_ = root_ / "ids.json";
  void SetUp() override {
    fs::create_directories(root_);
    write_file_durably(ids_, "[[1, 2, 3], [4]]");
  }
  void TearDown() override { fs::remove_all(root_); }

  static std::string output_of(const Command& command, const Words& words) {
    ::testing::internal::CaptureStdout();
    try {
      EXPECT_EQ(command.run(words), 0);
    } catch (const Error& error) {
      ::testing::internal::GetCapturedStdout();
      return std::string("error: ") + error.what();
    }
    return ::testing::internal::GetCapturedStdout();
  }
};

TEST_F(ModelCommands, ImportedAndExportedModelsAreTheOriginal) {
  for (const char* family : {"gpt2", "llama-gqa-tied"}) {
    const std::string original = kGolden / family;
    EXPECT_THAT(output_of(import_command(), {"--from", original, "--out", run_}), HasSubstr("imported"));
    EXPECT_THAT(output_of(export_command(), {"--run", run_, "--out", out_}), HasSubstr("step 0"));
    const SafetensorsFile before = SafetensorsFile::open(fs::path(original) / "model.safetensors");
    const SafetensorsFile after = SafetensorsFile::open(fs::path(out_) / "model.safetensors");
    EXPECT_EQ(after.entries().size(), before.entries().size());
    for (const auto& [name, entry] : before.entries()) {
      EXPECT_EQ(after.read(name).to_vector<float>(), before.read(name).to_vector<float>()) << name;
    }
    fs::remove_all(run_);
    fs::remove_all(out_);
  }
}

TEST_F(ModelCommands, GenerateGivesTheSameIdsFromEverySource) {
  const Words options = {"--ids",   ids_, "--tokens", "20", "--temperature", "0.7",
                         "--top-k", "9",  "--seed",   "3",  "--threads",     "1"};
  const auto with = [&](Words words) {
    words.insert(words.end(), options.begin(), options.end());
    return output_of(generate_command(), words);
  };
  output_of(import_command(), {"--from", hf_, "--out", run_});

  const std::string expected = with({"--hf", hf_});

  EXPECT_THAT(expected, ::testing::MatchesRegex("\\[\\[.*\\],\\[.*\\]\\]\n"));
  EXPECT_EQ(with({"--run", run_}), expected);
  EXPECT_EQ(with({"--checkpoint", run_ + "/checkpoints/step_00000000"}), expected);
}

TEST_F(ModelCommands, MisuseIsOneClearLine) {
  EXPECT_THAT(output_of(generate_command(), {"--hf", hf_}), HasSubstr("give --prompt, --prompt-file or --ids"));
  EXPECT_THAT(output_of(generate_command(), {"--hf", hf_, "--prompt", "x"}),
              HasSubstr("has no tokenizer; give token ids"));
  EXPECT_THAT(output_of(generate_command(), {"--ids", ids_}), HasSubstr("one of --run, --checkpoint and --hf"));
  EXPECT_THAT(output_of(generate_command(), {"--hf", hf_, "--ids", ids_, "--prompt", "x"}), HasSubstr("not both"));
  EXPECT_THAT(output_of(generate_command(), {"--hf", hf_, "--ids", ids_, "--top-p", "0"}), HasSubstr("top-p is 0"));
  EXPECT_THAT(output_of(generate_command(), {"--hf", hf_, "--ids", hf_ + "/config.json"}),
              HasSubstr("array of arrays"));
  EXPECT_THAT(output_of(export_command(), {"--out", out_}), HasSubstr("either --run or --checkpoint"));
  EXPECT_THAT(output_of(export_command(), {"--run", root_ / "absent", "--out", out_}), HasSubstr("absent"));
  EXPECT_THAT(output_of(import_command(), {"--from", root_, "--out", run_}), HasSubstr("no config.json"));
  EXPECT_FALSE(fs::exists(run_));
  EXPECT_THAT(output_of(import_command(), {"--from", hf_, "--out", root_}), HasSubstr("exists already"));
}

}  // namespace
}  // namespace longhaul
