// Decoding with per-sequence gates: prefill and single steps give what a forward pass over the whole sequence gives.
#include <gtest/gtest.h>

#include "core/models/amor_model.h"
#include "tests/core/models/amor_testing.h"

namespace longhaul {
namespace {

using testing::some_ids;
using testing::tiny_amor;

constexpr int64_t kLength = 23;

class AmorDecode : public ::testing::TestWithParam<testing::AmorVariant> {
 protected:
  void SetUp() override {
    testing::perturb(*model_);
    for (int64_t salt = 0; salt < 3; ++salt) sequences_.push_back(some_ids(kLength, 19, 2 * salt));
    std::vector<int32_t> ids;
    for (const auto& sequence : sequences_) ids.insert(ids.end(), sequence.begin(), sequence.end());
    batch_ = make_batch(3, kLength, ids, std::vector<int32_t>(ids.size(), 0), {}, {0, 1, 2});
    testing::open_gates(*model_, batch_);
    full_ = testing::full_logits(*model_, batch_);
    record_ = testing::gate_record(*model_, batch_);
  }
  bool fires(size_t block, int64_t sequence, int64_t position) const {
    const GateRecord::Block& gate = record_.blocks[block];
    return gate.entropies.data<float>()[sequence * kLength + position] > gate.threshold;
  }
  std::vector<int32_t> piece(int64_t sequence, int64_t begin, int64_t end) const {
    const auto& ids = sequences_[static_cast<size_t>(sequence)];
    return {ids.begin() + begin, ids.begin() + end};
  }
  void expect_full(const Tensor& logits, int64_t sequence, int64_t position) const {
    const int64_t row = sequence * kLength + position;
    const auto found = logits.rows(sequence, sequence + 1).to_vector<float>();
    const auto expected = full_.rows(row, row + 1).to_vector<float>();
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-4) << "sequence " << sequence << ", position " << position;
    }
  }
  std::unique_ptr<LanguageModel> model_ = make_model(tiny_amor(GetParam().mixer, GetParam().mode, GetParam().prior), 1);
  std::vector<std::vector<int32_t>> sequences_;
  Batch batch_;
  Tensor full_;
  GateRecord record_;
};
INSTANTIATE_TEST_SUITE_P(Variants, AmorDecode, ::testing::ValuesIn(testing::amor_variants()),
                         [](const auto& variant) { return testing::name_of(variant.param); });

TEST_P(AmorDecode, PrefillAndStepsEqualTheFullForwardAtEveryPosition) {
  for (int64_t prefill = 1; prefill < kLength; prefill += 3) {
    const auto state = model_->make_decode_state(3, kLength);
    Tensor logits = model_->decode(*state, {piece(0, 0, prefill), piece(1, 0, prefill), piece(2, 0, prefill)});
    for (int64_t position = prefill - 1;; ++position) {
      for (int64_t sequence = 0; sequence < 3; ++sequence) expect_full(logits, sequence, position);
      if (position + 1 == kLength) break;
      const int64_t next = position + 1;
      logits = model_->decode(*state, {piece(0, next, next + 1), piece(1, next, next + 1), piece(2, next, next + 1)});
    }
  }
}

TEST_P(AmorDecode, SequencesOfABatchFireDifferently) {
  int64_t mixed = 0;
  for (int64_t position = 0; position < kLength; ++position) {
    const int fired = fires(0, 0, position) + fires(0, 1, position) + fires(0, 2, position);
    mixed += fired == 1 || fired == 2;
  }
  EXPECT_GT(mixed, kLength / 4);
}

TEST_P(AmorDecode, UnequalPiecesGiveTheSameAndClearedSequencesStartAnew) {
  const auto state = model_->make_decode_state(3, kLength);
  model_->decode(*state, {piece(0, 0, 7), {}, piece(2, 0, 1)});
  model_->decode(*state, {piece(0, 7, 8), piece(1, 0, 20), piece(2, 1, 6)});
  state->clear(0);
  const Tensor logits = model_->decode(*state, {piece(0, 0, 11), piece(1, 20, kLength), {}});
  expect_full(logits, 0, 10);
  expect_full(logits, 1, kLength - 1);
  for (const float value : logits.rows(2, 3).span<float>()) EXPECT_EQ(value, 0);
}

TEST_P(AmorDecode, CountsWhatFiredAndWhatWasSkipped) {
  const auto state = model_->make_decode_state(3, kLength);
  model_->decode(*state, {piece(0, 0, 5), piece(1, 0, 9), {}});
  model_->decode(*state, {piece(0, 5, 6), {}, piece(2, 0, 1)});
  ASSERT_EQ(state->gate_work().size(), 2u);
  for (size_t block = 0; block < 2; ++block) {
    GateWork expected{.tokens = 16, .scored = 16};
    for (const auto& [sequence, length] : {std::pair{0, 6}, std::pair{1, 9}, std::pair{2, 1}}) {
      for (int64_t position = 0; position < length; ++position) {
        const bool fired = fires(block, sequence, position);
        expected.fired += fired;
        (fired ? expected.keys_read : expected.keys_skipped) += position + 1;
      }
    }
    EXPECT_EQ(state->gate_work()[block], expected) << "block " << block;
  }
}

}  // namespace
}  // namespace longhaul
