#include "parallel/state_hash.h"

#include <gtest/gtest.h>

#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

using namespace testing;  // the fixture

std::string hash_of(const std::function<void(ToyState&, CheckpointExtras&, int64_t& step)>& change) {
  TemporaryDirectory directory;
  run_ranks(2, [&](Communicator& group) {
    const RunDirectory run = RunDirectory::acquire(group, directory.path());
    CheckpointWriter writer(group, run, {});
    ToyState state(5);
    CheckpointExtras extras = toy_extras(5);
    int64_t step = 5;
    change(state, extras, step);
    writer.begin(step, state.slices(group.rank(), group.size()), extras);
    writer.finish();
  });
  return hash_state(CheckpointReader::open(resolve_checkpoint(directory.path()))).total;
}

TEST(StateHash, DependsOnEveryPartOfTheStateAndOnNothingElse) {
  const std::string base = hash_of([](auto&, auto&, auto&) {});
  EXPECT_EQ(base.size(), 32u);
  EXPECT_EQ(hash_of([](auto&, auto& extras, auto&) { extras.configuration = "other"; }), base);
  EXPECT_EQ(hash_of([](auto&, auto& extras, auto&) { extras.config_hash = "other"; }), base);
  EXPECT_EQ(hash_of([](auto&, auto& extras, auto&) { extras.best_weights = "{}"; }), base);
  EXPECT_NE(hash_of([](auto& state, auto&, auto&) { state.weight[76] += 1e-3f; }), base);
  EXPECT_NE(hash_of([](auto& state, auto&, auto&) { state.weight[0] = -state.weight[0]; }), base);
  EXPECT_NE(hash_of([](auto& state, auto&, auto&) { std::swap(state.weight, state.moment); }), base);
  EXPECT_NE(hash_of([](auto& state, auto&, auto&) { state.half[4] ^= 1; }), base);
  EXPECT_NE(hash_of([](auto&, auto& extras, auto&) { ++extras.data_position; }), base);
  EXPECT_NE(hash_of([](auto&, auto& extras, auto&) { extras.controller_state = "{}"; }), base);
  EXPECT_NE(hash_of([](auto&, auto&, auto& step) { step = 6; }), base);
}

TEST(StateHash, NamesTheTensorThatDiffers) {
  TemporaryDirectory one, two;
  save_steps(one.path(), 1, {5});
  save_steps(two.path(), 4, {6});
  const StateHash a = hash_state(CheckpointReader::open(resolve_checkpoint(one.path())));
  const StateHash b = hash_state(CheckpointReader::open(resolve_checkpoint(two.path())));
  ASSERT_EQ(a.tensors.size(), 3u);
  EXPECT_EQ(a.tensors[0].first, "adam_m/h.0.weight");
  EXPECT_NE(a.tensors[0].second, b.tensors[0].second);
}

}  // namespace
}  // namespace longhaul
