// Documents packed in one row: the same bits as alone, and no influence on one another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/core/models/model_testing.h"

namespace longhaul {
namespace {

using testing::full_logits;
using testing::packed_row;
using testing::some_ids;

class ModelDocuments : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<LanguageModel> model_ = make_model(config(), 1);
  static ModelConfig config() {
    ModelConfig config = testing::tiny_config(GetParam());
    config.context_length = 40;
    return config;
  }
  void SetUp() override { testing::perturb(*model_); }
  int64_t vocabulary() const { return model_->config().vocab_size; }
};
INSTANTIATE_TEST_SUITE_P(Families, ModelDocuments, ::testing::ValuesIn(testing::all_and_length_aware_families()),
                         [](const auto& family) { return testing::identifier(family.param); });

TEST_P(ModelDocuments, PackedLogitsAreThoseOfSeparateRows) {
  const std::vector<std::vector<int32_t>> documents = {some_ids(7, 19), some_ids(1, 19, 1), some_ids(16, 19, 2),
                                                       some_ids(13, 19, 3)};
  const Tensor packed = full_logits(*model_, packed_row(documents));
  int64_t row = 0;
  for (size_t index = 0; index < documents.size(); ++index) {
    const int64_t length = static_cast<int64_t>(documents[index].size());
    const Tensor apart = testing::logits_apart(*model_, documents, index);
    EXPECT_EQ(packed.rows(row, row + length).to_vector<float>(), apart.to_vector<float>()) << "document at " << row;
    row += length;
  }
}

TEST_P(ModelDocuments, ChangingOneDocumentLeavesTheOthersActivationsAndInputGradientsUntouched) {
  const std::vector<int32_t> first = some_ids(5, 19), second = some_ids(11, 19, 2);
  std::vector<int32_t> changed = first;
  changed[4] = (changed[4] + 1) % 19;
  const auto run = [&](const std::vector<int32_t>& a) {
    const Batch batch = packed_row({a, second});
    Tape tape;
    ForwardContext context{tape, batch};
    const Variable hidden = model_->hidden(context);
    return std::pair(hidden.value().clone(), full_logits(*model_, batch));
  };

  const auto [hidden, logits] = run(first);
  const auto [changed_hidden, changed_logits] = run(changed);

  EXPECT_EQ(hidden.rows(5, 16).to_vector<float>(), changed_hidden.rows(5, 16).to_vector<float>());
  EXPECT_EQ(logits.rows(5, 16).to_vector<float>(), changed_logits.rows(5, 16).to_vector<float>());
  EXPECT_NE(hidden.rows(4, 5).to_vector<float>(), changed_hidden.rows(4, 5).to_vector<float>());
}

TEST_P(ModelDocuments, GradientsOfADocumentDoNotDependOnItsNeighbour) {
  // Only the second document has targets: its gradients must not know what stands in the first.
  const std::vector<int32_t> second = some_ids(11, 19, 2);
  const auto gradients = [&](int64_t salt) {
    Batch batch = packed_row({some_ids(5, 19, salt), second});
    std::fill_n(batch.targets.data<int32_t>(), 5, -1);
    return testing::loss_and_gradients(*model_, batch).flat;
  };
  const Tensor expected = gradients(0), found = gradients(1);
  EXPECT_EQ(std::memcmp(found.raw(), expected.raw(), static_cast<size_t>(expected.bytes())), 0);
}

TEST_P(ModelDocuments, CausalityHolds) {
  std::vector<int32_t> ids = some_ids(9, 19);
  const Tensor before = full_logits(*model_, packed_row({ids}));
  ids[6] = (ids[6] + 3) % 19;
  const Tensor after = full_logits(*model_, packed_row({ids}));

  EXPECT_EQ(before.rows(0, 6).to_vector<float>(), after.rows(0, 6).to_vector<float>());
  EXPECT_NE(before.rows(6, 7).to_vector<float>(), after.rows(6, 7).to_vector<float>());
}

}  // namespace
}  // namespace longhaul
