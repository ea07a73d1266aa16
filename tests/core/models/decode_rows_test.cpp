#include "core/models/decode_rows.h"

#include <gtest/gtest.h>

#include <tuple>

namespace longhaul {
namespace {

std::vector<std::tuple<int64_t, int64_t, int64_t>> steps_of(std::vector<SequenceRows> runs) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> steps;
  for (const StepRows& step : recurrent_steps({std::move(runs), {}})) {
    steps.emplace_back(step.begin, step.sequence, step.count);
  }
  return steps;
}

using Steps = std::vector<std::tuple<int64_t, int64_t, int64_t>>;

TEST(RecurrentSteps, SingleTokensOfNeighbouringSequencesAreTakenTogether) {
  EXPECT_EQ(steps_of({{0, 0, 1}, {1, 1, 1}, {2, 2, 1}}), (Steps{{0, 0, 3}}));
  EXPECT_EQ(steps_of({{0, 0, 1}, {2, 1, 1}, {3, 2, 1}}), (Steps{{0, 0, 1}, {1, 2, 2}}));
}

TEST(RecurrentSteps, TokensOfOneSequenceAreTakenOneByOne) {
  EXPECT_EQ(steps_of({{1, 0, 3}}), (Steps{{0, 1, 1}, {1, 1, 1}, {2, 1, 1}}));
  EXPECT_EQ(steps_of({{0, 0, 2}, {1, 2, 1}, {2, 3, 1}}), (Steps{{0, 0, 1}, {1, 0, 1}, {2, 1, 2}}));
  EXPECT_EQ(steps_of({}), Steps{});
}

}  // namespace
}  // namespace longhaul
