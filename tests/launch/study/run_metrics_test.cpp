#include "launch/study/run_metrics.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

// Two validations of a run with rows of 64 tokens that also plays 32, 100 tokens a step.
constexpr const char* kLines = R"({"kind": "start", "step": 0, "ranks": 1}
{"kind": "train", "step": 1, "seconds": 50.0}
{"kind": "train", "step": 2, "seconds": 2.0}
{"kind": "train", "step": 3, "seconds": 1.0}
{"kind": "train", "step": 4, "seconds": 4.0}
{"kind": "validation_32", "step": 4, "cross_entropy": 5.5}
{"kind": "validation", "step": 4, "cross_entropy": 5.25}
{"kind": "game", "step": 4, "update": 1}
{"kind": "validation_32", "step": 8, "cross_entropy": 5.0}
{"kind": "validation", "step": 8, "cross_entropy": 4.75}
{"kind": "validation_swa_32", "step": 8, "cross_entropy": 4.5}
{"kind": "validation_swa", "step": 8, "cross_entropy": 4.75}
{"kind": "validation_ema", "step": 8, "cross_entropy": null}
{"kind": "validation_of_something_else", "step": 8, "cross_entropy": 0}
{"kind": "validation", "step": 12, "cross_ent)";

TEST(RunMetrics, HoldEveryValidationByWeightsAndLength) {
  const RunMetrics metrics = metrics_of(kLines, 64, 100);
  ASSERT_EQ(metrics.validations.size(), 2u);
  const ValidationScores &first = metrics.validations[0], &last = metrics.validations[1];
  EXPECT_EQ(first.step, 4);
  EXPECT_EQ(first.tokens, 400);
  EXPECT_EQ(first.cross_entropy.at("raw"), (std::map<int64_t, double>{{32, 5.5}, {64, 5.25}}));
  EXPECT_EQ(last.step, 8);
  EXPECT_EQ(last.cross_entropy.at("swa"), (std::map<int64_t, double>{{32, 4.5}, {64, 4.75}}));
  EXPECT_TRUE(std::isnan(last.cross_entropy.at("ema").at(64)));
  EXPECT_EQ(last.cross_entropy.size(), 3u);
}

TEST(RunMetrics, CountTheMedianStepAfterTheFirst) { EXPECT_EQ(metrics_of(kLines, 64, 100).tokens_per_second, 50); }

TEST(ValidationScores, BestAreThoseWithTheLeastFiniteScoreAndRawAmongEquals) {
  const ValidationScores last = metrics_of(kLines, 64, 100).validations.back();
  EXPECT_EQ(last.best_weights(64), "raw");
  EXPECT_EQ(last.best_weights(32), "swa");
  EXPECT_EQ(last.best_weights(16), "");
}

TEST(ReadRunMetrics, RefusesARunThatDidNotEnd) {
  const TemporaryDirectory directory;
  EXPECT_THAT(user_error_of([&] { read_run_metrics(directory.path(), 64, 100, 8); }), testing::HasSubstr("not there"));
  write_text(directory / "metrics.jsonl", kLines);
  EXPECT_EQ(read_run_metrics(directory.path(), 64, 100, 8).validations.size(), 2u);
  EXPECT_THAT(user_error_of([&] { read_run_metrics(directory.path(), 64, 100, 12); }),
              testing::HasSubstr("no validation after step 12"));
}

}  // namespace
}  // namespace longhaul
