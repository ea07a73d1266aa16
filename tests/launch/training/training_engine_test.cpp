#include "launch/training/training_engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/split_rows.h"

namespace longhaul {
namespace {

Configuration tiny(int64_t slots, int64_t rows_per_slot) {
  Configuration config;
  config.model.vocab_size = 13;
  config.model.context_length = 50;
  config.model.n_layer = 1;
  config.model.d_model = 8;
  config.model.n_head = 2;
  config.model = resolved(config.model);
  config.data.context = 50;
  config.train.slots = slots;
  config.train.rows_per_slot = rows_per_slot;
  return config;
}

/// Row 0 has 3 valid targets, row 1 has 49.
Batch row(int64_t first, int64_t count) {
  std::vector<int32_t> ids, targets;
  std::vector<int64_t> samples;
  for (int64_t r = first; r < first + count; ++r) {
    samples.push_back(r);
    for (int64_t t = 0; t < 50; ++t) {
      ids.push_back(static_cast<int32_t>((5 * r + 3 * t) % 13));
      targets.push_back(t < (r == 0 ? 3 : 49) ? static_cast<int32_t>((r + t) % 13) : -1);
    }
  }
  return make_batch(count, 50, ids, targets, {}, samples);
}

struct OneRank {
  explicit OneRank(const Configuration& config)
      : group(make_single_communicator()),
        engine(*group, config),
        guard({}),
        watchdog(*group, {.timeout_seconds = 0, .waiting_for_peers = {}, .orphaned = {}, .terminate = {}}) {}
  std::unique_ptr<Communicator> group;
  TrainingEngine engine;
  SpikeGuard guard;
  Watchdog watchdog;
};

TEST(TrainingEngine, UnevenSlotsWeighByTargetsLikeOneBatch) {
  OneRank slots(tiny(2, 1)), whole(tiny(1, 2));
  const StepResult a = slots.engine.step(
      1, 1e-3, slots.guard, [](int64_t slot) { return row(slot, 1); }, slots.watchdog);
  const StepResult b = whole.engine.step(
      1, 1e-3, whole.guard, [](int64_t) { return row(0, 2); }, whole.watchdog);
  EXPECT_EQ(a.valid_targets, 52);
  EXPECT_NEAR(a.cross_entropy, b.cross_entropy, 1e-6 * b.cross_entropy);
  EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-6 * b.gradient_norm);
}

TEST(TrainingEngine, ASlotWithoutTargetsIsHarmless) {
  const auto no_targets = [](const Batch& batch) {
    for (int32_t& target : batch.targets.span<int32_t>()) target = -1;
    return batch;
  };
  OneRank with(tiny(2, 1)), without(tiny(1, 1));
  const StepResult a = with.engine.step(
      1, 1e-3, with.guard, [&](int64_t slot) { return slot == 0 ? row(1, 1) : no_targets(row(1, 1)); }, with.watchdog);
  const StepResult b = without.engine.step(
      1, 1e-3, without.guard, [](int64_t) { return row(1, 1); }, without.watchdog);
  EXPECT_EQ(a.decision, SpikeGuard::Decision::apply);
  EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-6 * b.gradient_norm);
}

TEST(TrainingEngine, AStepWithoutAnyTargetIsSkipped) {
  OneRank run(tiny(1, 1));
  const auto before = run.engine.model().parameters().flat_values().to_vector<float>();
  const StepResult result = run.engine.step(
      1, 1e-3, run.guard,
      [](int64_t) {
        const Batch batch = row(0, 1);
        for (int32_t& target : batch.targets.span<int32_t>()) target = -1;
        return batch;
      },
      run.watchdog);
  EXPECT_TRUE(std::isnan(result.cross_entropy));
  EXPECT_EQ(result.decision, SpikeGuard::Decision::skip_nonfinite);
  EXPECT_EQ(run.engine.model().parameters().flat_values().to_vector<float>(), before);
  EXPECT_EQ(run.engine.optimizer().updates(), 0);
}

TEST(TrainingEngine, ANonFiniteWeightSkipsTheUpdate) {
  OneRank run(tiny(1, 1));
  run.engine.model().parameters().flat_values().data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const StepResult result = run.engine.step(
      1, 1e-3, run.guard, [](int64_t) { return row(1, 1); }, run.watchdog);
  EXPECT_EQ(result.decision, SpikeGuard::Decision::skip_nonfinite);
  EXPECT_EQ(run.engine.optimizer().updates(), 0);
}

Configuration tiny_amor(int64_t slots, const std::string& update) {
  Configuration config = tiny(slots, 1);
  config.model.family = "amor";
  config.model.mixer_head_size = 4;
  config.model.state_size = 4;
  config.model.gate.blocks = 2;
  config.model.gate.momentum = 0.5;
  config.model.gate.update = update;
  config.model = resolved(config.model);
  return config;
}

TEST(TrainingEngine, AppliedStepsMoveTheGatesTowardsTheMedianOfAllSlots) {
  OneRank run(tiny_amor(2, "after"));
  const StepResult result = run.engine.step(
      1, 1e-3, run.guard, [](int64_t slot) { return row(slot, 1); }, run.watchdog);
  ASSERT_EQ(result.gates.size(), 2u);
  for (size_t gate = 0; gate < 2; ++gate) {
    EXPECT_EQ(result.gates[gate].entropy.count, 52);
    EXPECT_EQ(result.gates[gate].threshold, 0.32f);
    EXPECT_EQ(result.gates[gate].fired, 52);  // an untrained model knows nothing: entropies near 1
    EXPECT_DOUBLE_EQ(run.engine.model().gates()[gate].state().mean, 0.15 + 0.5 * result.gates[gate].entropy.median);
    EXPECT_DOUBLE_EQ(run.engine.model().gates()[gate].state().deviation,
                     0.05 + 0.5 * result.gates[gate].entropy.deviation);
  }
}

TEST(TrainingEngine, SkippedStepsLeaveTheGatesAlone) {
  for (const char* update : {"after", "before"}) {
    OneRank run(tiny_amor(1, update));
    run.engine.model().parameters().find("final_norm.weight").variable.value().data<float>()[0] =
        std::numeric_limits<float>::quiet_NaN();
    const StepResult result = run.engine.step(
        1, 1e-3, run.guard, [](int64_t) { return row(1, 1); }, run.watchdog);
    EXPECT_EQ(result.decision, SpikeGuard::Decision::skip_nonfinite);
    EXPECT_EQ(result.gates[0].entropy.count, 49);
    EXPECT_EQ(run.engine.model().gates()[0].state(), (EntropyGate::State{0.3, 0.1})) << update;
  }
}

TEST(TrainingEngine, UpdateBeforeUsesItsOwnStepAndNeedsOneSlot) {
  OneRank run(tiny_amor(1, "before"));
  const StepResult result = run.engine.step(
      1, 1e-3, run.guard, [](int64_t) { return row(1, 1); }, run.watchdog);
  const EntropyGate& gate = run.engine.model().gates()[0];
  EXPECT_DOUBLE_EQ(gate.state().mean, 0.15 + 0.5 * result.gates[0].entropy.median);
  EXPECT_EQ(result.gates[0].threshold, gate.threshold());
  try {
    OneRank refused(tiny_amor(2, "before"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("train.slots is 2"), std::string::npos);
  }
}

Configuration tiny_fuzzy(int64_t slots) {
  Configuration config = tiny(slots, 1);
  config.model.family = "fuzzy_transformer";
  config.model.n_layer = 2;
  config.model.rpa.regimes = 3;
  config.model.n_kv_head = config.model.d_ff = 0;
  config.model.norm_epsilon = 0;
  config.model.rpa.prior = "auto";
  config.model = resolved(config.model);
  return config;
}

TEST(TrainingEngine, AppliedStepsMoveThePriorMemoryOfTheLengthsTheyPlayed) {
  OneRank run(tiny_fuzzy(2));
  const StepResult result = run.engine.step(
      1, 1e-3, run.guard, [](int64_t slot) { return slot == 0 ? row(1, 1) : split_rows(row(1, 1), 25); }, run.watchdog);
  ASSERT_EQ(result.slots.size(), 2u);
  for (const SlotLoss& slot : result.slots) {
    ASSERT_EQ(slot.memberships.size(), 2u);
    EXPECT_EQ(slot.memberships[1].tokens, 49);
    EXPECT_NEAR(slot.memberships[1].sums[0] + slot.memberships[1].sums[1] + slot.memberships[1].sums[2], 49, 1e-4);
  }
  const auto& entries = run.engine.model().prior_memory()->entries();
  ASSERT_EQ(entries.size(), 2u);
  for (const int64_t length : {25, 50}) {
    EXPECT_EQ(entries.at(length).updates, 1);
    const double* const first = entries.at(length).memberships.data<double>();
    EXPECT_NEAR(first[0] + first[1] + first[2], 1, 1e-6);
    double columns = 0;  // each of the alignment's three sums to 1
    for (int64_t i = 0; i < 9; ++i) columns += entries.at(length).alignment.data<double>()[i];
    EXPECT_NEAR(columns, 3, 1e-5);
  }
}

TEST(TrainingEngine, SkippedStepsLeaveThePriorMemoryAlone) {
  OneRank run(tiny_fuzzy(1));
  run.engine.model().parameters().find("fuzzy.ln_f.weight").variable.value().data<float>()[0] =
      std::numeric_limits<float>::quiet_NaN();
  const StepResult result = run.engine.step(
      1, 1e-3, run.guard, [](int64_t) { return row(1, 1); }, run.watchdog);
  EXPECT_EQ(result.decision, SpikeGuard::Decision::skip_nonfinite);
  EXPECT_EQ(result.slots[0].memberships[0].tokens, 49);
  EXPECT_TRUE(run.engine.model().prior_memory()->entries().empty());
}

TEST(TrainingEngine, LearnsARepeatedRow) {
  OneRank run(tiny(1, 1));
  double first = 0, last = 0;
  for (int64_t step = 1; step <= 30; ++step) {
    last = run.engine
               .step(
                   step, 1e-2, run.guard, [](int64_t) { return row(1, 1); }, run.watchdog)
               .cross_entropy;
    if (step == 1) first = last;
  }
  EXPECT_LT(last, 0.7 * first);
}

}  // namespace
}  // namespace longhaul
