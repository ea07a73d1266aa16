#include "launch/study/ablation_report.h"

#include <gmock/gmock.h>

namespace longhaul {
namespace {

/// Two validations, after steps 1 and 2, of rows of 64 tokens.
RunMetrics run_of(double first, double last, double speed) {
  return {.validations = {{1, 100, {{"raw", {{64, first}}}}}, {2, 200, {{"raw", {{64, last}}}}}},
          .tokens_per_second = speed};
}

/// Rung r has 6 - r and 5 - r, with seeds 0.1 apart.
AblationResults results() {
  AblationResults results{.context = 64, .steps = 2, .parameters = 1234, .tokens_per_step = 100, .rungs = {}};
  for (int rung = 0; rung < 4; ++rung) {
    results.rungs.push_back({run_of(6 - rung, 5 - rung, 1000), run_of(6.1 - rung, 5.1 - rung, 1100)});
  }
  return results;
}

TEST(AblationReport, TableHasMeanAndDeviationOfEveryRung) {
  const std::string table = ablation_markdown(results());
  EXPECT_THAT(table, testing::HasSubstr("after 2 steps of 100 tokens, 1234 parameters"));
  EXPECT_THAT(table,
              testing::HasSubstr("| baseline | 5.0500 ± 0.0707 | - | - | 5.0500 ± 0.0707 | raw | 1050 ± 71 |\n"));
  EXPECT_THAT(table, testing::HasSubstr("| + selective SWA | 2.0500 ± 0.0707 | - | - | 2.0500 ± 0.0707 | raw |"));
  EXPECT_THAT(table, testing::Not(testing::HasSubstr("rows of")));
}

TEST(AblationReport, TablesSayWhichWeightsAreBestAndScoreEveryLength) {
  AblationResults found = results();
  for (RunMetrics& run : found.rungs[3]) {
    auto& scores = run.validations.back().cross_entropy;
    scores["raw"][32] = 2.5;
    scores["swa"] = {{32, 1.75}, {64, 1.5}};
  }
  const std::string table = ablation_markdown(found);
  EXPECT_THAT(table, testing::HasSubstr("| 2.0500 ± 0.0707 | - | 1.5000 ± 0.0000 | 1.5000 ± 0.0000 | swa |"));
  EXPECT_THAT(table, testing::HasSubstr("| rung | rows of 32 | rows of 64 |"));
  EXPECT_THAT(table, testing::HasSubstr("| baseline | - | 5.0500 ± 0.0707 |\n"));
  EXPECT_THAT(table, testing::HasSubstr("| + selective SWA | 1.7500 ± 0.0000 | 1.5000 ± 0.0000 |\n"));

  const std::string csv = ablation_csv(found);
  EXPECT_THAT(csv, testing::HasSubstr("baseline,raw,64,2,5.050000,0.070711,1050.0,70.7,2,200,1234\n"));
  EXPECT_THAT(csv, testing::HasSubstr("swa,raw,32,2,2.500000,0.000000,"));
  EXPECT_THAT(csv, testing::HasSubstr("swa,best,32,2,1.750000,0.000000,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 3 * 2 + 6);
}

TEST(AblationReport, PictureHasOneThickCurvePerRungAndOneThinPerSeed) {
  const std::string picture = ablation_curves(results());
  const auto count = [&](const std::string& words) {
    int64_t found = 0;
    for (size_t at = 0; (at = picture.find(words, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("stroke-width=\"0.8\""), 8);
  EXPECT_EQ(count("stroke-width=\"2.2\""), 4 + 4) << "curves and their legend";
  EXPECT_EQ(count("+ Guardian and schedules"), 1);
}

}  // namespace
}  // namespace longhaul
