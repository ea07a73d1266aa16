// Every file under configs/ loads, and the published models have their published sizes.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/models/language_model.h"
#include "launch/config/load_configuration.h"
#include "tests/support/source_tree.h"

namespace longhaul {
namespace {

const std::filesystem::path kConfigs = source_root() / "configs";

int64_t parameters_of(const char* name, int64_t vocabulary = 0) {
  ModelConfig model = load_configuration(kConfigs / name).values.model;
  if (model.vocab_size == 0) model.vocab_size = vocabulary;
  return count_parameters(model);
}

TEST(PublishedConfigs, AllOfThemLoadAndDescribeAModel) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".ini") continue;
    EXPECT_GT(parameters_of(entry.path().filename().c_str(), 257), 0) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 8);
}

TEST(PublishedConfigs, HaveTheSizesTheyState) {
  EXPECT_EQ(parameters_of("gpt2-124m.ini"), 124'439'808);
  EXPECT_EQ(parameters_of("gpt2-355m.ini"), 354'823'168);
  EXPECT_EQ(parameters_of("gpt2-774m.ini"), 774'030'080);
  EXPECT_EQ(parameters_of("gpt2-1558m.ini"), 1'557'611'200);
  EXPECT_EQ(parameters_of("transformer-124m.ini"), 123'551'232);
}

}  // namespace
}  // namespace longhaul
