#include "launch/training/validation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/comm/communicator.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

ModelConfig tiny() {
  ModelConfig config;
  config.vocab_size = 11;
  config.context_length = 4;
  config.n_layer = 1;
  config.d_model = 8;
  config.n_head = 2;
  return resolved(config);
}

/// Row r holds r valid targets (r <= 4): batch means would weigh rows wrongly.
Batch rows_of(int64_t first, int64_t count) {
  std::vector<int32_t> ids, targets;
  std::vector<int64_t> sample_ids;
  for (int64_t row = first; row < first + count; ++row) {
    for (int64_t t = 0; t < 4; ++t) {
      ids.push_back(static_cast<int32_t>((3 * row + t) % 11));
      targets.push_back(t < row ? static_cast<int32_t>((row + 2 * t) % 11) : -1);
    }
    sample_ids.push_back(row);
  }
  return make_batch(count, 4, ids, targets, {}, sample_ids);
}

TEST(Validation, IsSumOverTargetsForEveryBatchSize) {
  auto group = make_single_communicator();
  auto model = make_model(tiny(), 1);
  const ValidationScore reference = score_rows(*group, *model, 5, 1, rows_of, [](int64_t) {});
  EXPECT_EQ(reference.valid_targets, 0 + 1 + 2 + 3 + 4);
  for (int64_t rows_per_batch = 2; rows_per_batch <= 6; ++rows_per_batch) {
    const ValidationScore score = score_rows(*group, *model, 5, rows_per_batch, rows_of, [](int64_t) {});
    EXPECT_EQ(score.valid_targets, reference.valid_targets);
    EXPECT_NEAR(score.mean(), reference.mean(), 1e-6);
    EXPECT_EQ(score.correct, reference.correct);
  }
}

TEST(Validation, AccuracyCountsTheMostProbableTokens) {
  auto group = make_single_communicator();
  auto model = make_model(tiny(), 1);
  // Every target is made what the model holds for most probable; then those at odd places are made the next token.
  const auto right = [&](int64_t first, int64_t count, bool spoil) {
    Batch batch = rows_of(first, count);
    Tape tape(Tape::Mode::off);
    ForwardContext context{.tape = tape, .batch = batch};
    const Tensor logits = model->logits(model->hidden(context).value());
    int32_t* targets = batch.targets.data<int32_t>();
    for (int64_t i = 0; i < batch.tokens(); ++i) {
      const float* row = logits.data<float>() + i * 11;
      const auto best = static_cast<int32_t>(std::max_element(row, row + 11) - row);
      if (targets[i] >= 0) targets[i] = spoil && i % 2 == 1 ? (best + 1) % 11 : best;
    }
    return batch;
  };
  const auto all = [&](int64_t first, int64_t count) { return right(first, count, false); };
  const auto some = [&](int64_t first, int64_t count) { return right(first, count, true); };
  EXPECT_EQ(score_rows(*group, *model, 5, 2, all, [](int64_t) {}).accuracy(), 1.0);
  // Valid targets at places 0; 0 1; 0 1 2; 0 1 2 3: four of the ten are at odd ones.
  EXPECT_EQ(score_rows(*group, *model, 5, 2, some, [](int64_t) {}).accuracy(), 0.6);
}

TEST(Validation, CountsWhereGatesFired) {
  auto group = make_single_communicator();
  const auto score_with = [&](double initial_mean) {
    ModelConfig config;
    config.family = "amor";
    config.vocab_size = 11;
    config.context_length = 4;
    config.n_layer = 1;
    config.d_model = 8;
    config.n_head = 2;
    config.mixer_head_size = 4;
    config.state_size = 4;
    config.gate = {.blocks = 2, .kappa = 0, .initial_mean = initial_mean};
    auto model = make_model(resolved(config), 1);
    return score_rows(*group, *model, 5, 2, rows_of, [](int64_t) {});
  };
  const ValidationScore always = score_with(0), never = score_with(1);
  EXPECT_EQ(always.tokens, 20);
  ASSERT_EQ(always.gates.size(), 2u);
  for (size_t gate = 0; gate < 2; ++gate) {
    EXPECT_EQ(always.gates[gate].fired, 20);
    EXPECT_EQ(always.gates[gate].fired_on_targets, 10);
    EXPECT_EQ(never.gates[gate].fired, 0);
    EXPECT_EQ(never.gates[gate].fired_on_targets, 0);
  }
  EXPECT_TRUE(score_rows(*group, *make_model(tiny(), 1), 5, 2, rows_of, [](int64_t) {}).gates.empty());
}

TEST(Validation, WithoutATargetIsAnErrorNotNan) {
  auto group = make_single_communicator();
  auto model = make_model(tiny(), 1);
  EXPECT_THROW(score_rows(*group, *model, 1, 1, rows_of, [](int64_t) {}), Error);
}

TEST(Validation, LimitsRowsByTokens) {
  EXPECT_EQ(validation_rows(10, 64, 0), 10);
  EXPECT_EQ(validation_rows(10, 64, 1), 1);
  EXPECT_EQ(validation_rows(10, 64, 129), 3);
  EXPECT_EQ(validation_rows(10, 64, 1 << 20), 10);
}

TEST(Validation, MeanIsTotalSumOverTotalTargets) {
  ValidationScore score;
  score.cross_entropy_sum = 2 + 90;
  score.valid_targets = 1 + 9;
  EXPECT_DOUBLE_EQ(score.mean(), 9.2);
}

}  // namespace
}  // namespace longhaul
