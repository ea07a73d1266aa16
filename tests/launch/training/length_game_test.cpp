#include "launch/training/length_game.h"

#include <cmath>

#include "launch/config/load_configuration.h"
#include "tests/core/error_check.h"

namespace longhaul {
namespace {

Configuration game_of(const std::string& lengths, const std::string& assignment = "global") {
  std::vector<std::string> settings = {"model.context_length=8", "game.every=2", "game.assignment=" + assignment};
  if (!lengths.empty()) settings.push_back("game.lengths=" + lengths);
  return parse_configuration("", "", settings).values;
}

Batch row_of_eight() { return make_batch(1, 8, {1, 2, 3, 4, 5, 6, 7, 8}, {2, 3, 4, 5, 6, 7, 8, -1}, {}, {3}); }

TEST(LengthGame, LengthsThatDoNotFitTheRowsAreUserErrors) {
  testing::expect_error(Fault::kUser, {"game.lengths", "3 does not divide", "8"}, [] { LengthGame{game_of("3,8")}; });
  testing::expect_error(Fault::kUser, {"game.lengths", "longest is 4", "data.context = 8"},
                        [] { LengthGame{game_of("2,4")}; });
  testing::expect_error(Fault::kUser, {"game.lengths", "4 follows 8", "ascending"}, [] { LengthGame{game_of("8,4")}; });
  testing::expect_error(Fault::kUser, {"game.lengths", "8 follows 8"}, [] { LengthGame{game_of("8,8")}; });
  testing::expect_error(Fault::kUser, {"game.lengths"}, [] { game_of("4,"); });
  testing::expect_error(Fault::kUser, {"game.lengths"}, [] { game_of("4;8"); });
  testing::expect_error(Fault::kUser, {"game.lengths", "0"}, [] { game_of("0,8"); });
}

TEST(LengthGame, WithoutAGameRowsStayWholeAndNothingIsStored) {
  LengthGame game(game_of(""));
  EXPECT_EQ(game.lengths(), std::vector<int64_t>{8});
  EXPECT_EQ(game.split(row_of_eight(), 1, 0).length(), 8);
  EXPECT_FALSE(game.observe(2, {}, *make_single_communicator()));
  EXPECT_FALSE(game.state());
}

TEST(LengthGame, SlotsPlayAlikeOrEachForItself) {
  const LengthGame global(game_of("2,4,8")), each(game_of("2,4,8", "per_rank"));
  bool differ = false;
  for (int64_t step = 1; step <= 20; ++step) {
    EXPECT_EQ(global.split(row_of_eight(), step, 0).length(), global.split(row_of_eight(), step, 1).length());
    differ |= each.split(row_of_eight(), step, 0).length() != each.split(row_of_eight(), step, 1).length();
  }
  EXPECT_TRUE(differ);
}

TEST(LengthGame, UpdatesFromTheSlotsOfAppliedSteps) {
  const std::unique_ptr<Communicator> alone = make_single_communicator();
  LengthGame game(game_of("4,8", "per_rank"));
  StepResult result;
  for (int64_t slot = 0; slot < 16; ++slot) {
    const int64_t length = game.split(row_of_eight(), 1, slot).length();
    result.slots.push_back({length == 4 ? 30.0 : 20.0, 10});  // losses 3 and 2
  }
  EXPECT_FALSE(game.observe(1, result, *alone));
  result.decision = SpikeGuard::Decision::skip_spike;
  const std::optional<GameReport> report = game.observe(2, result, *alone);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->played[0].tokens + report->played[1].tokens, 160);  // the skipped step does not count
  EXPECT_DOUBLE_EQ(report->decision.utilities[0], -3);
  EXPECT_DOUBLE_EQ(report->decision.utilities[1], -2);
  EXPECT_GT(report->decision.probabilities[1], 0.5);
  EXPECT_EQ(report->imbalance, 1);

  EXPECT_EQ(report->played[0].saturation + report->played[1].saturation, 0);  // no memberships

  LengthGame again(game_of("4,8", "per_rank"));
  again.set_state(game.state(), "here");
  EXPECT_EQ(again.state(), game.state());
  LengthGame other(game_of("2,4,8"));
  testing::expect_error(Fault::kUser, {"runs/a/step_1", "2 lengths", "3"},
                        [&] { other.set_state(game.state(), "runs/a/step_1"); });
}

TEST(LengthGame, MembershipsWeighByTargets) {
  const std::unique_ptr<Communicator> alone = make_single_communicator();
  LengthGame game(game_of("4,8"));
  StepResult result;
  for (const int64_t targets : {10, 30}) {
    SlotLoss slot{.cross_entropy = 0, .valid_targets = targets};
    slot.memberships = {
        {.regimes = 2, .tokens = targets, .saturated = targets, .entropy = 0, .sums = {}},
        {.regimes = 2, .tokens = targets, .saturated = targets / 10, .entropy = 10 * std::log(2.0), .sums = {}}};
    result.slots.push_back(slot);
  }
  game.observe(1, result, *alone);
  result.decision = SpikeGuard::Decision::skip_spike;
  const std::optional<GameReport> report = game.observe(2, result, *alone);
  const size_t played = report->played[0].tokens > 0 ? 0 : 1;
  EXPECT_DOUBLE_EQ(report->played[played].saturation, 22);  // means over layers: 0.55 of 40 targets
  EXPECT_DOUBLE_EQ(report->played[played].entropy, 10);     // (0 + 1) / 2 of 10, (0 + 1/3) / 2 of 30
  // u = -L - 0.1 (0.55 - 0.5) + 0.05 * 0.25
  EXPECT_NEAR(report->decision.utilities[played], -0.005 + 0.0125, 1e-15);
}

}  // namespace
}  // namespace longhaul
