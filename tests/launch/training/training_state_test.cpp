#include "launch/training/training_state.h"

#include <gtest/gtest.h>

#include "kernels/error.h"
#include "launch/trainer.h"
#include "tests/core/error_check.h"
#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

TEST(ControllerState, ReadsBackExactly) {
  const ControllerState state{17, {0.1 + 0.2, 15, 1, 2}, {"data", "tokenizer"}};
  const ControllerState again = ControllerState::from_json(state.to_json(), "here");
  EXPECT_EQ(again.updates, 17);
  EXPECT_EQ(again.guard, state.guard);
  EXPECT_EQ(again.identity.data, "data");
  EXPECT_EQ(again.identity.tokenizer, "tokenizer");
}

TEST(ControllerState, KeepsGatesExactlyAndDoesNotMentionThemWithout) {
  ControllerState state{1, {}, {"data", "tokenizer"}};
  EXPECT_EQ(state.to_json().find("gates"), std::string::npos);
  state.gates = {{0.1 + 0.2, 1.0 / 3}, {0.25, 0.125}};
  EXPECT_EQ(ControllerState::from_json(state.to_json(), "here").gates, state.gates);
}

TEST(ControllerState, KeepsTheGameExactlyAndDoesNotMentionItWithout) {
  ControllerState state{1, {}, {"data", "tokenizer"}};
  EXPECT_EQ(state.to_json().find("game"), std::string::npos);
  state.game = {{{-1.0 / 3, -5.3, true, {7, 0.1 + 0.2, 0.5, 0.25}}, {}}, 12};
  EXPECT_EQ(ControllerState::from_json(state.to_json(), "here").game, state.game);
}

TEST(ControllerState, ForeignTextNamesItsOrigin) {
  try {
    ControllerState::from_json("{}", "runs/a/step_1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("runs/a/step_1: ", 0), 0u);
  }
}

/// A checkpoint of a run with this configuration.
CheckpointReader checkpoint_of(const std::filesystem::path& run_directory, const std::string& configuration) {
  testing::run_ranks(1, [&](Communicator& group) {
    const RunDirectory run = RunDirectory::acquire(group, run_directory);
    CheckpointOptions options;
    options.background = false;
    CheckpointWriter writer(group, run, options);
    testing::ToyState state(1);
    CheckpointExtras extras = testing::toy_extras(1);
    extras.configuration = configuration;
    extras.controller_state = ControllerState{1, {}, {"data", "tokenizer"}}.to_json();
    writer.begin(1, state.slices(0, 1), extras);
  });
  return CheckpointReader::open(resolve_checkpoint(run_directory));
}

TEST(CheckResumable, KeysThatAreNewerThanACheckpointStandForWhatItDid) {
  testing::TemporaryDirectory directory;
  ResolvedConfiguration now = parse_configuration("", "", {"model.vocab_size=16"});
  now.values.model = resolved(now.values.model);
  now.refresh_text();
  const std::string text = now.ini();
  const size_t begin = text.find("[rpa]"), end = text.find("\n[", begin);
  ASSERT_NE(text.find("prior = off", begin), std::string::npos);
  const CheckpointReader checkpoint =
      checkpoint_of(directory.path(), text.substr(0, begin) + text.substr(end + 1));  // without [rpa]
  EXPECT_TRUE(check_resumable(now, {"data", "tokenizer"}, checkpoint).empty());
  now.values.model.rpa.prior = "on";
  now.refresh_text();
  testing::expect_error(Fault::kUser, {"rpa.prior is on", "off"}, [&] {
    check_resumable(now, {"data", "tokenizer"}, checkpoint);
  });
}

TEST(ScheduleOf, DecaysUntilTheEndOfTheRunUnlessToldOtherwise) {
  Configuration config;
  config.train.steps = 100;
  config.schedule = {.learning_rate = 1, .warmup_steps = 10, .flat_steps = 20, .floor = 0.1, .decay_steps = 0};
  EXPECT_EQ(schedule_of(config).decay_steps, 70);
  EXPECT_DOUBLE_EQ(schedule_of(config).rate(100), 0.1);
  // A longer run resumed from a checkpoint follows the new rule from its next step on, nothing remembered.
  config.train.steps = 200;
  EXPECT_EQ(schedule_of(config).decay_steps, 170);
  config.schedule.decay_steps = 5;
  EXPECT_DOUBLE_EQ(schedule_of(config).rate(35), 0.1);
}

}  // namespace
}  // namespace longhaul
