#include "launch/training/weight_selection.h"

#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "kernels/error.h"
#include "parallel/shard_layout.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// One gain of 1 whose averages are what a test makes them.
struct Fixture {
  explicit Fixture(bool snapshots) : group(make_single_communicator()) {
    config.validation.every = 1;
    config.swa.enabled = snapshots;
    config.swa.zone = 5;
    store.add("gain", {3}, WeightDecay::no, Initialization::constant(1.0));
    store.finalize();
    store.initialize(1);
    layout = std::make_unique<ShardLayout>(store, 1);
    optimizer =
        std::make_unique<ShardedOptimizer>(store, *layout, *group, ShardedOptimizerOptions{.snapshots = snapshots});
    selection = std::make_unique<WeightSelection>(config);
  }
  auto validate(int64_t step, std::map<std::string, double> scores) {
    scored.clear();
    return selection->validate(step, "data", *optimizer, [&](const std::string& weights) {
      scored.push_back(weights);
      return scores.at(weights);
    });
  }

  std::unique_ptr<Communicator> group;
  Configuration config;
  ParameterStore store{DType::f32};
  std::unique_ptr<ShardLayout> layout;
  std::unique_ptr<ShardedOptimizer> optimizer;
  std::unique_ptr<WeightSelection> selection;
  std::vector<std::string> scored;
};

TEST(WeightSelection, SnapshotsNeedValidations) {
  Configuration config;
  config.swa.enabled = true;
  try {
    WeightSelection selection(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("validation.every is 0"));
  }
  config.validation.every = 1;
  EXPECT_NO_THROW(WeightSelection{config});
}

TEST(WeightSelection, ScoresTheMeanWithTheSnapshotJustTaken) {
  Fixture run(true);
  EXPECT_FALSE(run.validate(1, {{"raw", 4.0}})->take);
  EXPECT_THAT(run.scored, ElementsAre("raw"));
  EXPECT_EQ(run.selection->best().weights, "raw");
  EXPECT_TRUE(run.validate(2, {{"raw", 3.0}, {"swa", 2.5}})->take);
  EXPECT_THAT(run.scored, ElementsAre("raw", "swa"));
  EXPECT_EQ(run.selection->best().weights, "swa");
  EXPECT_EQ(run.selection->best().cross_entropy, 2.5);
  EXPECT_EQ(run.selection->best().step, 2);
  EXPECT_EQ(run.selection->state()->snapshots, 1);
}

TEST(WeightSelection, WithoutAveragesOnlyTheWeightsThemselvesCount) {
  Fixture run(false);
  EXPECT_FALSE(run.validate(1, {{"raw", 4.0}}));
  EXPECT_EQ(run.selection->best().weights, "raw");
  EXPECT_FALSE(run.selection->state());
  run.validate(2, {{"raw", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_EQ(run.selection->best().to_json(), "");
}

TEST(WeightSelection, GoesOnFromACheckpointAndFreshFromOneWithoutState) {
  Fixture first(true), second(true), third(false);
  first.validate(1, {{"raw", 4.0}});
  first.validate(2, {{"raw", 3.0}, {"swa", 2.5}});
  const std::string mark = first.selection->best().to_json();
  second.selection->restore(first.selection->state(), BestWeights::from_json(mark, "here"));
  EXPECT_EQ(second.selection->state(), first.selection->state());
  EXPECT_EQ(second.selection->best().to_json(), mark);
  second.selection->restore({}, {});
  EXPECT_EQ(second.selection->state()->snapshots, 0);
  third.selection->restore(first.selection->state(), first.selection->best());
  EXPECT_EQ(third.selection->best().weights, "");
}

TEST(ControllerState, KeepsTheSelectiveAverageExactly) {
  ControllerState state{1, {}, {"data", "tokenizer"}};
  EXPECT_FALSE(ControllerState::from_json(state.to_json(), "here").swa);
  state.swa = {true, 0.1 + 0.2, 3, "data, 5 rows"};
  EXPECT_EQ(ControllerState::from_json(state.to_json(), "here").swa, state.swa);
}

}  // namespace
}  // namespace longhaul
