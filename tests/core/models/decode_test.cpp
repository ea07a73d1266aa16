// Incremental decoding with a key-value cache against the full forward pass.
#include <gtest/gtest.h>

#include "tests/core/models/model_testing.h"

namespace longhaul {
namespace {

using testing::full_logits;
using testing::packed_row;
using testing::some_ids;

class Decode : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<LanguageModel> model_ = make_model(testing::tiny_config(GetParam()), 1);
  void SetUp() override { testing::perturb(*model_); }

  /// The row of the full forward pass after all of `ids`.
  std::vector<float> expected_logits(const std::vector<int32_t>& ids) {
    const Tensor logits = full_logits(*model_, packed_row({ids}), model_->config().context_length);
    return logits.rows(logits.size(0) - 1, logits.size(0)).to_vector<float>();
  }
  static void expect_near(const Tensor& logits, int64_t row, const std::vector<float>& expected) {
    const std::vector<float> found = logits.rows(row, row + 1).to_vector<float>();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << "sequence " << row;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, Decode, ::testing::ValuesIn(testing::all_and_length_aware_families()),
                         [](const auto& family) { return testing::identifier(family.param); });

TEST_P(Decode, PrefillThenTokenByTokenEqualsTheFullForward) {
  const std::vector<int32_t> ids = some_ids(11, 19);
  const auto state = model_->make_decode_state(1, 11);
  expect_near(model_->decode(*state, {{ids.begin(), ids.begin() + 4}}), 0,
              expected_logits({ids.begin(), ids.begin() + 4}));
  for (int64_t length = 5; length <= 11; ++length) {
    const Tensor logits = model_->decode(*state, {{ids[static_cast<size_t>(length) - 1]}});
    expect_near(logits, 0, expected_logits({ids.begin(), ids.begin() + length}));
  }
  EXPECT_EQ(state->length(0), 11);
}

TEST_P(Decode, SequencesOfUnequalLengthsDoNotDisturbEachOther) {
  const std::vector<int32_t> a = some_ids(8, 19), b = some_ids(8, 19, 3), c = some_ids(8, 19, 5);
  const auto state = model_->make_decode_state(3, 11);
  const auto piece = [](const std::vector<int32_t>& ids, int64_t begin, int64_t end) {
    return std::vector<int32_t>(ids.begin() + begin, ids.begin() + end);
  };

  const Tensor first = model_->decode(*state, {piece(a, 0, 5), piece(b, 0, 1), {}});
  const Tensor second = model_->decode(*state, {piece(a, 5, 6), piece(b, 1, 4), piece(c, 0, 7)});

  expect_near(first, 0, expected_logits(piece(a, 0, 5)));
  expect_near(first, 1, expected_logits(piece(b, 0, 1)));
  expect_near(first, 2, std::vector<float>(19, 0.0f));
  expect_near(second, 0, expected_logits(piece(a, 0, 6)));
  expect_near(second, 1, expected_logits(piece(b, 0, 4)));
  expect_near(second, 2, expected_logits(piece(c, 0, 7)));
}

// Longer than the chunks of the recurrences' training form, in runs that do not end where chunks do.
TEST_P(Decode, LongRunsEqualTheFullForwardAtEveryCut) {
  ModelConfig config = testing::tiny_config(GetParam());
  config.context_length = 150;
  config.initializer_range = 0.1;
  model_ = make_model(config, 1);
  testing::perturb(*model_);
  const std::vector<int32_t> ids = some_ids(150, 19);
  const Tensor full = full_logits(*model_, packed_row({ids}));
  const auto state = model_->make_decode_state(2, 150);
  int64_t seen = 0;
  for (const int64_t end : {70, 71, 72, 129, 150}) {
    const std::vector<int32_t> piece(ids.begin() + seen, ids.begin() + end);
    const Tensor logits = model_->decode(*state, {{5}, piece});
    expect_near(logits, 1, full.rows(end - 1, end).to_vector<float>());
    seen = end;
  }
}

TEST_P(Decode, ClearedSequenceStartsAnew) {
  const std::vector<int32_t> ids = some_ids(6, 19);
  const auto state = model_->make_decode_state(2, 11);
  model_->decode(*state, {{1, 2, 3}, {4, 5}});
  state->clear(0);

  const Tensor logits = model_->decode(*state, {ids, {6}});

  expect_near(logits, 0, expected_logits(ids));
  expect_near(logits, 1, expected_logits({4, 5, 6}));
}

TEST_P(Decode, FullStateAndForeignIdsAreRefused) {
  const auto state = model_->make_decode_state(1, 4);
  model_->decode(*state, {{1, 2, 3}});
  EXPECT_THROW(model_->decode(*state, {{4, 5}}), Error);
  EXPECT_THROW(model_->decode(*state, {{19}}), Error);
  EXPECT_THROW(model_->decode(*state, {{-1}}), Error);
  EXPECT_THROW(model_->make_decode_state(1, 12), Error);
}

}  // namespace
}  // namespace longhaul
