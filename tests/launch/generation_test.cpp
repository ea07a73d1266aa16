#include "launch/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace longhaul {
namespace {

using ::testing::ElementsAre;

/// Share of each token over many positions.
std::map<int32_t, double> frequencies(const std::vector<float>& logits, const SamplingOptions& options) {
  constexpr int kDraws = 20000;
  std::map<int32_t, double> shares;
  for (int i = 0; i < kDraws; ++i) shares[sample_token(logits, options, 0, i)] += 1.0 / kDraws;
  return shares;
}

const std::vector<float> kLogits = {std::log(0.5f), std::log(0.1f), std::log(0.3f), std::log(0.1f)};

TEST(SampleToken, DrawsFromTheSoftmax) {
  auto shares = frequencies(kLogits, {.temperature = 1, .top_k = 0, .top_p = 1, .seed = 1});
  EXPECT_NEAR(shares[0], 0.5, 0.015);
  EXPECT_NEAR(shares[1], 0.1, 0.015);
  EXPECT_NEAR(shares[2], 0.3, 0.015);
  EXPECT_NEAR(shares[3], 0.1, 0.015);
}

TEST(SampleToken, TemperatureSharpens) {
  auto shares = frequencies(kLogits, {.temperature = 0.5, .top_k = 0, .top_p = 1, .seed = 1});
  EXPECT_NEAR(shares[0], 0.25 / 0.36, 0.015);
  EXPECT_NEAR(shares[2], 0.09 / 0.36, 0.015);
}

TEST(SampleToken, TopKAndTopPKeepTheMostProbable) {
  auto top2 = frequencies(kLogits, {.temperature = 1, .top_k = 2, .top_p = 1, .seed = 1});
  EXPECT_EQ(top2.size(), 2u);
  EXPECT_NEAR(top2[0], 0.5 / 0.8, 0.015);
  auto half = frequencies(kLogits, {.temperature = 1, .top_k = 0, .top_p = 0.45, .seed = 1});
  EXPECT_EQ(half.size(), 1u);
  auto most = frequencies(kLogits, {.temperature = 1, .top_k = 0, .top_p = 0.75, .seed = 1});
  EXPECT_EQ(most.size(), 2u);
  auto wide = frequencies(kLogits, {.temperature = 1, .top_k = 100, .top_p = 1, .seed = 1});
  EXPECT_EQ(wide.size(), 4u);
}

TEST(SampleToken, GreedyTakesTheLowestOfEqualIds) {
  const std::vector<float> logits = {0, 2, 1, 2};
  EXPECT_EQ(sample_token(logits, {.temperature = 0, .top_k = 0, .top_p = 1, .seed = 9}, 0, 0), 1);
}

TEST(SampleToken, DependsOnSeedSequenceAndPositionAlone) {
  const std::vector<float> flat(1000, 0.0f);
  const SamplingOptions options{.temperature = 1, .top_k = 0, .top_p = 1, .seed = 1};
  const int32_t token = sample_token(flat, options, 2, 3);
  EXPECT_EQ(sample_token(flat, options, 2, 3), token);
  EXPECT_NE(sample_token(flat, options, 2, 4), token);
  EXPECT_NE(sample_token(flat, options, 3, 3), token);
  EXPECT_NE(sample_token(flat, {.temperature = 1, .top_k = 0, .top_p = 1, .seed = 2}, 2, 3), token);
}

TEST(SamplingOptions, ValuesOutOfRangeAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NO_THROW(check({.temperature = 0, .top_k = 0, .top_p = 1, .seed = 0}));
  EXPECT_THROW(check({.temperature = -1, .top_k = 0, .top_p = 1, .seed = 0}), Error);
  EXPECT_THROW(check({.temperature = nan, .top_k = 0, .top_p = 1, .seed = 0}), Error);
  EXPECT_THROW(check({.temperature = 1, .top_k = -1, .top_p = 1, .seed = 0}), Error);
  EXPECT_THROW(check({.temperature = 1, .top_k = 0, .top_p = 0, .seed = 0}), Error);
  EXPECT_THROW(check({.temperature = 1, .top_k = 0, .top_p = 1.1, .seed = 0}), Error);
}

class Generate : public ::testing::Test {
 protected:
  std::unique_ptr<LanguageModel> model_ = make_model(config(), 4);
  static ModelConfig config() {
    ModelConfig config;
    config.vocab_size = 23;
    config.context_length = 8;
    config.n_layer = 1;
    config.d_model = 16;
    config.n_head = 2;
    config.initializer_range = 0.5;
    return config;
  }
  static GenerationOptions greedy(int64_t tokens) {
    GenerationOptions options;
    options.max_new_tokens = tokens;
    options.sampling.temperature = 0;
    return options;
  }
  /// The most probable token after `window`, by the full forward pass.
  int32_t next(const std::vector<int32_t>& window) {
    const auto length = static_cast<int64_t>(window.size());
    const Batch batch = make_batch(1, length, window, std::vector<int32_t>(window.size(), -1), {}, {0});
    Tape tape(Tape::Mode::off);
    ForwardContext context{tape, batch};
    const Tensor logits = model_->logits(model_->hidden(context).value());
    return sample_token(logits.rows(length - 1, length).span<float>(), greedy(1).sampling, 0, 0);
  }
};

TEST_F(Generate, GreedyFollowsTheFullForwardAndSlidesToTheLastHalf) {
  std::vector<int32_t> window = {3, 1, 4, 1, 5}, expected;
  for (int i = 0; i < 12; ++i) {
    const int32_t token = next(window);
    expected.push_back(token);
    if (window.size() == 8) window.erase(window.begin(), window.end() - 3);  // 3 + the new one: half of 8
    window.push_back(token);
  }
  EXPECT_EQ(generate(*model_, {{3, 1, 4, 1, 5}}, greedy(12)), std::vector<std::vector<int32_t>>{expected});
}

TEST_F(Generate, OfALongPromptTheLastPartIsRead) {
  const std::vector<int32_t> last = {2, 7, 1, 8, 2, 8, 1, 8};
  std::vector<int32_t> prompt(30, 9);
  prompt.insert(prompt.end(), last.begin(), last.end());
  EXPECT_EQ(generate(*model_, {prompt}, greedy(5)), generate(*model_, {last}, greedy(5)));
}

TEST_F(Generate, PromptsOfABatchDoNotDisturbEachOther) {
  GenerationOptions options = greedy(6);
  options.sampling.temperature = 1;
  options.sampling.seed = 5;
  const auto together = generate(*model_, {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11}}, options);
  ASSERT_EQ(together.size(), 3u);
  EXPECT_EQ(together[0], generate(*model_, {{1, 2, 3}}, options)[0]);
  EXPECT_EQ(together[1], generate(*model_, {{1, 2, 3}, {4}}, options)[1]);
  EXPECT_EQ(together[2].size(), 6u);
}

TEST_F(Generate, StopsAtTheStopTokenWithoutReturningIt) {
  const std::vector<int32_t> all = generate(*model_, {{3, 1, 4}}, greedy(6))[0];
  GenerationOptions options = greedy(6);
  options.stop_id = all[2];
  std::vector<int32_t> expected;
  for (int32_t token : all) {
    if (token == options.stop_id) break;
    expected.push_back(token);
  }
  EXPECT_EQ(generate(*model_, {{3, 1, 4}}, options)[0], expected);
}

TEST_F(Generate, EmptyPromptsAreRefused) { EXPECT_THROW(generate(*model_, {{1}, {}}, greedy(1)), Error); }

}  // namespace
}  // namespace longhaul
