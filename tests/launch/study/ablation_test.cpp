#include "launch/study/ablation.h"

#include <gmock/gmock.h>

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

constexpr const char* kTop = R"([model]
family = fuzzy_transformer
context_length = 32
n_layer = 1
d_model = 8
n_head = 2
[game]
lengths = 16,32
[guardian]
enabled = true
[schedule]
chaos_amplitude = 0.25
[swa]
enabled = true
[validation]
every = 5
)";

class AblationPlan : public testing::Test {
 protected:
  void SetUp() override { write_dataset(directory_ / "data", numbered_documents(20, 10), ByteTokenizer(), 1 << 20); }
  Ablation plan(const std::vector<std::string>& settings = {}) const {
    std::vector<std::string> all = {"data.datasets=" + (directory_ / "data").string()};
    all.insert(all.end(), settings.begin(), settings.end());
    return plan_ablation(parse_configuration(kTop, "top.ini", all), {7, 8}, "out");
  }
  std::string refusal(const std::vector<std::string>& settings) const {
    return user_error_of([&] { plan(settings); });
  }
  TemporaryDirectory directory_;
};

TEST_F(AblationPlan, SwitchesPartsOffRungByRung) {
  const Ablation ablation = plan();
  ASSERT_EQ(ablation.runs.size(), 8u);
  std::vector<std::string> found;
  for (const AblationRun& run : ablation.runs) {
    const Configuration& c = run.configuration.values;
    found.push_back(fmt::format("{} {} {}: {} {} {} {} {}", run.directory.string(), c.train.seed, c.data.seed,
                                c.game.lengths.size(), c.model.rpa.prior, c.guardian.enabled,
                                c.schedule.chaos_amplitude, c.swa.enabled));
    EXPECT_EQ(run.configuration.text.at("train.run_dir"), run.directory.string());
  }
  EXPECT_THAT(found, testing::ElementsAre(
                         "out/baseline-seed7 7 7: 0 off false 0 false", "out/game-seed7 7 7: 2 on false 0 false",
                         "out/guardian-seed7 7 7: 2 on true 0.25 false", "out/swa-seed7 7 7: 2 on true 0.25 true",
                         "out/baseline-seed8 8 8: 0 off false 0 false", "out/game-seed8 8 8: 2 on false 0 false",
                         "out/guardian-seed8 8 8: 2 on true 0.25 false", "out/swa-seed8 8 8: 2 on true 0.25 true"));
  EXPECT_GT(ablation.parameters, 257 * 8);
}

TEST_F(AblationPlan, RefusesWhatCouldNotBeCompared) {
  EXPECT_THAT(refusal({"swa.enabled=false"}), testing::HasSubstr("rung 'swa' adds nothing to 'guardian'"));
  EXPECT_THAT(refusal({"guardian.enabled=false", "schedule.chaos_amplitude=0"}),
              testing::HasSubstr("rung 'guardian' adds nothing to 'game'"));
  EXPECT_THAT(refusal({"validation.every=0"}), testing::HasSubstr("validation.every is 0"));
  EXPECT_THAT(refusal({"metrics.jsonl=false"}), testing::HasSubstr("metrics.jsonl is false"));
  EXPECT_THAT(refusal({"data.datasets=nowhere"}), testing::HasSubstr("longhaul tokenize"));
  EXPECT_THAT(refusal({"data.datasets="}), testing::HasSubstr("data.datasets"));
}

TEST_F(AblationPlan, RefusesRungsOfDifferentSize) {
  EXPECT_THAT(refusal({"model.family=transformer", "rpa.prior=on"}), testing::HasSubstr("expected equal ones"));
}

TEST(ParseSeeds, ReadsDifferentWholeNumbers) {
  EXPECT_EQ(parse_seeds("1"), (std::vector<uint64_t>{1}));
  EXPECT_EQ(parse_seeds("3,0,12"), (std::vector<uint64_t>{3, 0, 12}));
  for (const char* bad : {"", "1,", "1,2,1", "-1", "a"}) {
    EXPECT_THAT(user_error_of([&] { parse_seeds(bad); }), testing::HasSubstr("--seeds")) << bad;
  }
}

}  // namespace
}  // namespace longhaul
