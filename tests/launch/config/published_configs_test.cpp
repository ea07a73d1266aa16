// Every file under configs/ loads, and the published models have their published sizes.
#include <fmt/format.h>
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
  EXPECT_GE(files, 40);
}

TEST(PublishedConfigs, HaveTheSizesTheyState) {
  EXPECT_EQ(parameters_of("gpt2-124m.ini"), 124'439'808);
  EXPECT_EQ(parameters_of("gpt2-355m.ini"), 354'823'168);
  EXPECT_EQ(parameters_of("gpt2-774m.ini"), 774'030'080);
  EXPECT_EQ(parameters_of("gpt2-1558m.ini"), 1'557'611'200);
  EXPECT_EQ(parameters_of("transformer-124m.ini"), 123'551'232);
}

/// Of a part of count_parameter_parts(); 0 where the model has none.
int64_t part_of(const std::string& name, const char* part) {
  int64_t found = 0;
  for (const ParameterPart& entry : count_parameter_parts(load_configuration(kConfigs / name).values.model)) {
    if (entry.name == part) found = entry.parameters;
  }
  return found;
}

TEST(PublishedConfigs, AmorHasItsPublishedSizesAndAddsLessThanAFewPercentToItsBackbone) {
  const std::vector<std::pair<std::string, double>> scales = {{"180m", 184e6}, {"440m", 448e6}, {"1.5b", 1.54e9}};
  for (const auto& [scale, published] : scales) {
    for (const char* mixer : {"mamba2", "gdn"}) {
      for (const char* variant : {"k3-classic", "k1-classic", "k3-h"}) {
        const std::string name = fmt::format("amor-{}-{}-{}.ini", scale, mixer, variant);
        const double total = static_cast<double>(parameters_of(name.c_str()));
        const double backbone = static_cast<double>(parameters_of(fmt::format("{}-{}.ini", mixer, scale).c_str()));
        const double added = static_cast<double>(part_of(name, "attention blocks"));
        EXPECT_EQ(total, backbone + added) << name;
        EXPECT_GT(added, 0) << name;
        EXPECT_LT(added, 0.05 * backbone) << name;
        const bool three_blocks_on_mamba2 = std::string(mixer) == "mamba2" && variant[1] == '3';
        if (three_blocks_on_mamba2) {
          EXPECT_NEAR(total, published, 0.005 * published) << name;
        }
      }
    }
  }
}

TEST(PublishedConfigs, TheLadderHasTheSizesOfThePublishedRun) {
  const Configuration ladder = load_configuration(kConfigs / "wikitext2-ladder.ini").values;
  EXPECT_EQ(ladder.train.slots * ladder.train.rows_per_slot * ladder.data.context, 24'576);
  EXPECT_EQ(ladder.train.steps, 8'030);
  EXPECT_EQ(ladder.model.d_model, 510);
  EXPECT_EQ(ladder.model.n_layer, 12);
  EXPECT_EQ(ladder.model.n_head, 6);
  EXPECT_EQ(ladder.model.rpa.regimes, 4);
  EXPECT_EQ(ladder.model.dropout, 0.09);
  EXPECT_EQ(ladder.model.label_smoothing, 0.015);
  EXPECT_EQ(ladder.game.lengths.back(), 768);
  EXPECT_EQ(ladder.validation.max_tokens, 0) << "the whole split";
  EXPECT_EQ(ladder.train.steps % ladder.validation.every, 0);
}

TEST(PublishedConfigs, HybridsAreAsLargeAsTheirRecurrentModel) {
  for (const char* scale : {"180m", "440m", "1.5b"}) {
    for (const std::string mixer : {"mamba2", "gdn"}) {
      const double recurrent = static_cast<double>(parameters_of(fmt::format("{}-{}.ini", mixer, scale).c_str()));
      for (const char* family : {"serial", "fused"}) {
        const std::string name = fmt::format("{}-{}{}.ini", family, mixer == "gdn" ? "gdn-" : "", scale);
        EXPECT_NEAR(static_cast<double>(parameters_of(name.c_str())), recurrent, 0.02 * recurrent) << name;
      }
    }
  }
}

}  // namespace
}  // namespace longhaul
