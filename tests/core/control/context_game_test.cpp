#include "core/control/context_game.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "kernels/error.h"

namespace longhaul {
namespace {

/// One token of each length at these losses, then an update.
ContextGame::Decision play(ContextGame& game, const std::vector<double>& losses) {
  for (size_t i = 0; i < losses.size(); ++i) game.observe(i, {.tokens = 1, .loss = losses[i]});
  return game.update();
}

ContextGame::Options pure_game(double eta) { return {.lengths = {4, 8, 16}, .eta = eta, .floor = 0}; }

TEST(ContextGame, ConcentratesOnTheBestAtRateEtaTimesGap) {
  ContextGame game(pure_game(0.05));
  const std::vector<double> losses{5.5, 5.0, 5.3};
  for (int update = 1; update <= 200; ++update) {
    play(game, losses);
    const std::vector<double> q = game.probabilities();
    // q_i(n) / q_j(n) = exp(n eta (u_i - u_j)) from the uniform start
    const double first = std::exp(-update * 0.05 * 0.5), third = std::exp(-update * 0.05 * 0.3);
    EXPECT_NEAR(q[1], 1 / (1 + first + third), 1e-12);
    EXPECT_NEAR(q[0] / q[1] / first, 1, 1e-11);
    EXPECT_NEAR(q[2] / q[1] / third, 1, 1e-11);
  }
}

TEST(ContextGame, EqualUtilitiesLeaveEveryBitOfQ) {
  ContextGame game(pure_game(0.3));
  play(game, {5, 4, 6});
  const std::vector<double> q = game.probabilities();
  for (const double loss : {3.0, 2.9, 7.7}) play(game, {loss, loss, loss});
  EXPECT_EQ(game.probabilities(), q);
}

TEST(ContextGame, MeanUtilityNeverFallsForFixedUtilities) {
  for (const double floor : {0.0, 0.1, 0.3}) {
    ContextGame::Options options = pure_game(0.7);
    options.floor = floor;
    ContextGame game(options);
    play(game, {1, 2, 9});  // away from the uniform start
    double before = -INFINITY;
    for (int update = 0; update < 60; ++update) {
      const double mean = play(game, {5.5, 5.0, 5.3}).mean_utility;
      EXPECT_GE(mean, before - 1e-14) << "floor " << floor << " update " << update;
      before = mean;
    }
    EXPECT_GT(before, -5.26) << floor;  // and rose above the mean of the uniform distribution
  }
}

TEST(ContextGame, FloorIsRespectedAndQSumsToOne) {
  ContextGame::Options options{.lengths = {4, 8, 16, 32}, .eta = 2, .floor = 0.07};
  ContextGame game(options);
  for (int update = 0; update < 50; ++update) {
    play(game, {1, 1.5 + (update % 7), 3, 2.0 - (update % 3)});
    const std::vector<double> q = game.probabilities();
    EXPECT_NEAR(std::accumulate(q.begin(), q.end(), 0.0), 1, 1e-15);
    for (const double value : q) EXPECT_GE(value, 0.07 - 1e-15);
  }
}

TEST(ContextGame, FloorKeepsTheRatiosOfTheOthers) {
  ContextGame::Options options = pure_game(1);
  options.floor = 0.2;
  ContextGame game(options);
  play(game, {0, std::log(2.0), 5});
  const std::vector<double> q = game.probabilities();
  EXPECT_NEAR(q[2], 0.2, 1e-15);
  EXPECT_NEAR(q[0], 0.8 * 2 / 3, 1e-15);
  EXPECT_NEAR(q[1], 0.8 * 1 / 3, 1e-15);
}

TEST(ContextGame, AFlooredLengthComesBackAtOnceWhenItBecomesTheBest) {
  ContextGame::Options options = pure_game(1);
  options.floor = 0.1;
  ContextGame game(options);
  for (int update = 0; update < 500; ++update) play(game, {1, 2, 2});
  play(game, {2, 1, 2});
  EXPECT_NEAR(game.probabilities()[1], 0.9 * 0.1 * std::numbers::e / (0.8 + 0.1 * std::numbers::e),
              1e-12);  // the third stays at the floor
}

TEST(ContextGame, UtilityIsLossSaturationBeyondTheFreePartAndEntropy) {
  ContextGame::Options options = pure_game(0.1);
  options.saturation_weight = 2;
  options.free_saturation = 0.5;
  options.entropy_weight = 3;
  ContextGame game(options);
  game.observe(0, {.tokens = 2, .loss = 8, .saturation = 1.4, .entropy = 0.5});
  game.observe(0, {.tokens = 2, .loss = 12, .saturation = 1.8, .entropy = 0.3});
  game.observe(1, {.tokens = 4, .loss = 20, .saturation = 1.0, .entropy = 0});
  const ContextGame::Decision decision = game.update();
  EXPECT_NEAR(decision.utilities[0], -5 - 2 * (0.8 - 0.5) + 3 * 0.2, 1e-14);
  EXPECT_NEAR(decision.utilities[1], -5, 1e-14);  // saturation 0.25 is free
  EXPECT_NEAR(decision.mean_utility, (decision.utilities[0] + decision.utilities[1]) / 2, 1e-14);
}

TEST(ContextGame, SaturationAtOneLengthMakesItLosePlay) {
  ContextGame game(pure_game(1));
  for (int update = 0; update < 100; ++update) {
    game.observe(0, {.tokens = 1, .loss = 5, .saturation = 1});
    game.observe(1, {.tokens = 1, .loss = 5, .saturation = 0.5});
    game.observe(2, {.tokens = 1, .loss = 5, .saturation = 0.2});
    game.update();
  }
  const std::vector<double> q = game.probabilities();
  EXPECT_NEAR(q[0] / q[1], std::exp(-100 * 0.1 * 0.5), 1e-12);
  EXPECT_NEAR(q[1], q[2], 1e-12);
}

TEST(ContextGame, ALengthNotSeenKeepsItsLastUtility) {
  ContextGame seen(pure_game(0.1)), unseen(pure_game(0.1));
  play(seen, {5, 4, 3});
  play(unseen, {5, 4, 3});
  play(seen, {5, 4, 3});
  unseen.observe(1, {.tokens = 7, .loss = 28});
  const ContextGame::Decision decision = unseen.update();
  EXPECT_EQ(unseen.probabilities(), seen.probabilities());
  EXPECT_EQ(decision.seen, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(decision.utilities[0], -5);
  EXPECT_NE(decision.line().find("4:-5.0000 (not seen)"), std::string::npos) << decision.line();
}

TEST(ContextGame, ALengthNeverSeenKeepsItsProbability) {
  ContextGame game(pure_game(0.5));
  for (int update = 0; update < 9; ++update) play(game, {5, 4});
  EXPECT_NEAR(game.probabilities()[2], 1.0 / 3, 1e-12);
  EXPECT_GT(game.probabilities()[1], 0.5);
}

TEST(ContextGame, WithoutAnyMeasureQStays) {
  ContextGame game(pure_game(0.5));
  game.observe(0, {.tokens = 1, .loss = std::numeric_limits<double>::quiet_NaN()});
  game.update();
  EXPECT_EQ(game.probabilities(), (std::vector<double>{1.0 / 3, 1.0 / 3, 1.0 / 3}));
}

TEST(ContextGame, DrawsFollowQAndDependOnStepAndPlayerAlone) {
  ContextGame::Options options = pure_game(1);
  options.assignment = ContextGame::Assignment::per_rank;
  options.seed = 3;
  ContextGame game(options);
  play(game, {1, 1 + std::log(2.0), 1 + std::log(4.0)});  // q = 4/7, 2/7, 1/7
  std::vector<double> counts(3);
  int apart = 0;
  for (int64_t step = 1000; step > 0; --step) {
    for (int64_t player = 0; player < 4; ++player) ++counts[game.draw(step, player)];
    apart += game.draw(step, 0) != game.draw(step, 1);
  }
  const double q[] = {4.0 / 7, 2.0 / 7, 1.0 / 7};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(counts[i] / 4000, q[i], 4 * std::sqrt(q[i] * (1 - q[i]) / 4000));
  EXPECT_NEAR(apart / 1000.0, 1 - 21.0 / 49, 0.07);  // independent players
  EXPECT_EQ(ContextGame(options).draw(17, 2), ContextGame(options).draw(17, 2));
}

TEST(ContextGame, GlobalAssignmentGivesAllPlayersTheSameLength) {
  ContextGame game(pure_game(1));
  std::vector<bool> played(3);
  for (int64_t step = 1; step < 40; ++step) {
    const size_t length = game.draw(step, 0);
    played[length] = true;
    for (int64_t player = 1; player < 4; ++player) EXPECT_EQ(game.draw(step, player), length);
  }
  EXPECT_EQ(played, (std::vector<bool>{true, true, true}));
}

TEST(ContextGame, RestoredInTheMiddleOfAPeriodItContinuesAlike) {
  ContextGame first(pure_game(0.3)), second(pure_game(0.3));
  play(first, {5, 4.3, 4.7});
  first.observe(2, {.tokens = 3, .loss = 10.1, .saturation = 2, .entropy = 0.7});
  second.set_state(first.state());
  for (ContextGame* game : {&first, &second}) {
    game->observe(2, {.tokens = 5, .loss = 21.7, .saturation = 4, .entropy = 0.9});
    game->update();
    play(*game, {4.9, 4.4, 4.1});
  }
  EXPECT_EQ(first.state(), second.state());
  EXPECT_EQ(first.probabilities(), second.probabilities());
}

TEST(ContextGame, RefusesWhatMakesNoSense) {
  EXPECT_THROW(ContextGame({.lengths = {}}), Error);
  EXPECT_THROW(ContextGame({.lengths = {8, 4}}), Error);
  EXPECT_THROW(ContextGame({.lengths = {4, 8, 16}, .floor = 0.34}), Error);
  EXPECT_THROW(ContextGame({.lengths = {4}, .eta = -1}), Error);
  EXPECT_THROW(ContextGame({.lengths = {4, 8}}).set_state(ContextGame({.lengths = {4}}).state()), Error);
}

}  // namespace
}  // namespace longhaul
