// Attention over what a sequence has seen, with the length-aware prior: whatever the calls, what ops::attention gives.
#include <gtest/gtest.h>

#include "core/models/amor_state.h"
#include "core/models/key_value_cache.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"
#include "tests/core/ops/attention_testing.h"
#include "tests/core/ops/prior_testing.h"

namespace longhaul {
namespace {

using testing::batch_of;
using testing::random_tensor;

constexpr int64_t kLength = 37, kPriorLength = 40;

class PriorDecode : public ::testing::TestWithParam<ops::AttentionOptions> {
 protected:
  PriorDecode() {
    std::vector<Variable> parts;
    for (const Tensor& tensor : testing::prior_tensors(testing::prior_inputs(kPriorLength, 4, testing::kClipped)))
      parts.emplace_back(tensor);
    prior_ = testing::length_prior(parts[0], parts[1], parts[2], testing::kClipped);
    prior_.score_temperature = 1.25;
    factors_ = ops::PriorFactors(prior_, kLength, DType::f64);
    Tape tape(Tape::Mode::off);
    whole_ = ops::attention(tape, Variable(qkv_), batch_of(2, kLength), options_, &prior_).value();
  }
  int64_t q_columns() const { return options_.query_heads * options_.head_size; }
  int64_t kv_columns() const { return options_.key_heads * options_.head_size; }

  /// The tokens [begin, end) of each sequence.
  struct Step {
    DecodeRows rows;
    std::vector<int64_t> tokens;  ///< rows of qkv_ and whole_
  };
  static Step step(const std::vector<std::pair<int64_t, int64_t>>& ranges) {
    Step step;
    std::vector<int32_t> positions;
    for (size_t sequence = 0; sequence < ranges.size(); ++sequence) {
      const auto [begin, end] = ranges[sequence];
      if (begin == end) continue;
      step.rows.runs.push_back({static_cast<int64_t>(sequence), static_cast<int64_t>(step.tokens.size()), end - begin});
      for (int64_t position = begin; position < end; ++position) {
        positions.push_back(static_cast<int32_t>(position));
        step.tokens.push_back(static_cast<int64_t>(sequence) * kLength + position);
      }
    }
    step.rows.positions = Tensor::from<int32_t>({static_cast<int64_t>(positions.size())}, positions);
    return step;
  }
  /// Columns [begin, end) of some rows of qkv_.
  Tensor pick(const std::vector<int64_t>& tokens, int64_t begin, int64_t end) const {
    const Tensor picked = Tensor::empty({static_cast<int64_t>(tokens.size()), end - begin}, DType::f64);
    for (size_t i = 0; i < tokens.size(); ++i)
      std::copy_n(qkv_.data<double>() + tokens[i] * qkv_.size(1) + begin, end - begin,
                  picked.data<double>() + static_cast<int64_t>(i) * picked.size(1));
    return picked;
  }
  void expect_whole(const Tensor& found, const std::vector<int64_t>& tokens) const {
    for (size_t i = 0; i < tokens.size(); ++i)
      for (int64_t column = 0; column < q_columns(); ++column)
        ASSERT_NEAR(found.data<double>()[static_cast<int64_t>(i) * q_columns() + column],
                    whole_.data<double>()[tokens[i] * q_columns() + column], 1e-13)
            << "token " << tokens[i];
  }

  const ops::AttentionOptions options_ = GetParam();
  const Tensor qkv_ = random_tensor({2 * kLength, q_columns() + 2 * kv_columns()}, 3, 1.5);
  ops::LengthPrior prior_;
  ops::PriorFactors factors_;
  Tensor whole_;
};
INSTANTIATE_TEST_SUITE_P(Heads, PriorDecode,
                         ::testing::Values(testing::options_of(4, 2, 6, true), testing::options_of(2, 2, 4, true)),
                         [](const auto& options) {
                           return options.param.query_heads == options.param.key_heads ? "plain" : "grouped";
                         });

TEST_P(PriorDecode, KeyValueCacheEqualsTheWholeRowHoweverItIsCut) {
  for (const std::vector<int64_t>& ends : {std::vector<int64_t>{37}, {1, 2, 3, 20, 36, 37}, {19, 37}}) {
    KeyValueCache cache(1, 2, kLength, kv_columns(), DType::f64);
    int64_t seen = 0;
    for (const int64_t end : ends) {
      const Step next = step({{seen, end}, {seen, end}});
      const Tensor qkv = pick(next.tokens, 0, qkv_.size(1));
      expect_whole(cache.attend(0, qkv, next.rows, options_, factors_), next.tokens);
      cache.advance(next.rows);
      seen = end;
    }
  }
}

TEST_P(PriorDecode, KeyValueCacheEqualsTheWholeRowTokenByTokenAndAtUnequalLengths) {
  KeyValueCache cache(1, 2, kLength, kv_columns(), DType::f64);
  const auto attend = [&](const Step& next) {
    expect_whole(cache.attend(0, pick(next.tokens, 0, qkv_.size(1)), next.rows, options_, factors_), next.tokens);
    cache.advance(next.rows);
  };
  attend(step({{0, 0}, {0, 5}}));
  for (int64_t position = 0; position + 5 < kLength; ++position)
    attend(step({{position, position + 1}, {position + 5, position + 6}}));
}

TEST_P(PriorDecode, GatedStateEqualsTheWholeRowForTheQueriesThatFire) {
  for (const std::vector<int64_t>& ends : {std::vector<int64_t>{37}, {3, 4, 5, 21, 37}}) {
    GatedAttentionState state(2, kLength, options_, DType::f64, factors_);
    int64_t seen = 0, checked = 0;
    for (const int64_t end : ends) {
      const Step next = step({{seen, end}, {seen, end}});
      state.append(pick(next.tokens, q_columns(), qkv_.size(1)), next.rows);
      std::vector<int32_t> fired;
      std::vector<int64_t> tokens;
      for (size_t row = 0; row < next.tokens.size(); ++row) {
        if (next.tokens[row] % 5 > 2) continue;
        fired.push_back(static_cast<int32_t>(row));
        tokens.push_back(next.tokens[row]);
      }
      const Tensor rows = Tensor::from<int32_t>({static_cast<int64_t>(fired.size())}, fired);
      expect_whole(state.attend(pick(tokens, 0, q_columns()), rows, next.rows), tokens);
      checked += static_cast<int64_t>(fired.size());
      seen = end;
    }
    EXPECT_GT(checked, kLength);
  }
}

TEST_P(PriorDecode, PriorsTooShortAreErrors) {
  const ops::PriorFactors factors(prior_, 0, DType::f64);
  KeyValueCache cache(1, 1, 2 * kPriorLength, kv_columns(), DType::f64);
  const auto attend = [&](int64_t count) {
    const Tensor positions = Tensor::zeros({count}, DType::i32);
    const Tensor qkv = Tensor::zeros({count, qkv_.size(1)}, DType::f64);
    cache.attend(0, qkv, {{{0, 0, count}}, positions}, options_, factors);
  };
  attend(kPriorLength);
  testing::expect_error(Fault::kInternal, {"attention: the prior has 40 positions", "41"},
                        [&] { attend(kPriorLength + 1); });
}

}  // namespace
}  // namespace longhaul
