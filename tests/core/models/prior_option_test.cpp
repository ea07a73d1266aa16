// The length-aware prior as an option of AMOR and the hybrids.
#include <gtest/gtest.h>

#include "core/models/amor_model.h"
#include "tests/core/models/amor_testing.h"

namespace longhaul {
namespace {

using testing::full_logits;
using testing::packed_row;
using testing::some_ids;

/// With rpa.prior, and without.
struct Pair {
  ModelConfig on, off;
};

Pair configs_of(const std::string& family) {
  Pair pair;
  pair.on = family == "amor" ? testing::tiny_amor("mamba2", "classic", true) : testing::tiny_config(family + "_rpa");
  pair.off = pair.on;
  pair.off.rpa.prior = "off";
  return pair;
}

class PriorOption : public ::testing::TestWithParam<std::string> {
 protected:
  /// The model with the prior has the parameters of the other one.
  void SetUp() override {
    testing::perturb(*off_);
    testing::perturb(*on_);
    for (const Parameter& parameter : off_->parameters().parameters())
      on_->parameters().find(parameter.name).variable.value().copy_from(parameter.variable.value());
    for (const auto& model : {off_.get(), on_.get()})
      for (EntropyGate& gate : model->gates()) gate.set_state({0.5, 0.1});
  }
  void set_warm(double warm) {
    PriorMemory::Control control = on_->prior_memory()->control();
    control.warm = warm;
    on_->prior_memory()->set_control(control);
  }
  PriorRecord training_record(const Batch& batch) const {
    PriorRecord record;
    Tape tape(Tape::Mode::off);
    ForwardContext context{.tape = tape, .batch = batch, .training = true, .priors = &record};
    on_->hidden(context);
    return record;
  }
  const Pair configs_ = configs_of(GetParam());
  std::unique_ptr<LanguageModel> on_ = make_model(configs_.on, 1, DType::f64);
  std::unique_ptr<LanguageModel> off_ = make_model(configs_.off, 1, DType::f64);
  const Batch batch_ = packed_row({some_ids(4, 19), some_ids(7, 19, 2)});
};
INSTANTIATE_TEST_SUITE_P(Families, PriorOption, ::testing::Values("serial", "fused", "amor"),
                         [](const auto& family) { return family.param; });

TEST_P(PriorOption, OffRegistersAndRemembersNothing) {
  EXPECT_EQ(off_->prior_memory(), nullptr);
  size_t more = 0;
  for (const Parameter& parameter : on_->parameters().parameters())
    more += parameter.name.find(".rpa.") != std::string::npos;
  EXPECT_EQ(more, 5 * static_cast<size_t>(on_->prior_memory()->options().layers));
  EXPECT_EQ(on_->parameters().parameters().size(), off_->parameters().parameters().size() + more);
}

TEST_P(PriorOption, PriorThatHasNotBegunHasTheBitsOfOff) {
  const std::vector<double> expected = full_logits(*off_, batch_).to_vector<double>();
  EXPECT_NE(full_logits(*on_, batch_).to_vector<double>(), expected);
  set_warm(0);
  EXPECT_EQ(full_logits(*on_, batch_).to_vector<double>(), expected);
  const auto objective = [&](LanguageModel& model) { return testing::loss_and_gradients(model, batch_, true).loss; };
  EXPECT_EQ(objective(*on_).cross_entropy, objective(*off_).cross_entropy);
}

TEST_P(PriorOption, TrainingRecordsTheMembershipsOfEveryToken) {
  const PriorRecord record = training_record(batch_);
  const RpaConfig& rpa = configs_.on.rpa;
  ASSERT_EQ(static_cast<int64_t>(record.layers.size()), on_->prior_memory()->options().layers);
  for (const PriorRecord::Layer& layer : record.layers) {
    EXPECT_EQ(layer.memberships.shape(), Shape({11, rpa.regimes}));
    EXPECT_EQ(layer.mean_memberships.shape(), Shape({11, rpa.regimes}));
    EXPECT_EQ(layer.alignment.shape(), Shape({rpa.regimes, rpa.regimes}));
  }
}

TEST_P(PriorOption, EvaluationReadsTheMemoryAlone) {
  const std::vector<double> before = full_logits(*on_, batch_).to_vector<double>();
  for (const Parameter& parameter : on_->parameters().parameters())
    if (parameter.name.find(".rpa.projection") != std::string::npos)
      for (double& value : parameter.variable.value().span<double>()) value *= 3;
  EXPECT_EQ(full_logits(*on_, batch_).to_vector<double>(), before);
  on_->prior_memory()->clear();
  EXPECT_NE(full_logits(*on_, batch_).to_vector<double>(), before);
}

TEST(PriorOptionOf, CountsTheLayersThatAttend) {
  const auto layers = [](const char* family, int64_t n_layer, int64_t every) {
    ModelConfig config = testing::tiny_config(std::string(family) + "_rpa");
    config.n_layer = n_layer;
    config.attention_every = every;
    return make_model(config, 1)->prior_memory()->options().layers;
  };
  EXPECT_EQ(layers("serial", 7, 3), 2);
  EXPECT_EQ(layers("serial", 3, 3), 1);
  EXPECT_EQ(layers("fused", 3, 3), 3);
  EXPECT_EQ(make_model(testing::tiny_amor("gdn", "h", true), 1)->prior_memory()->options().layers, 2);
}

/// Two rows that differ in a document in which nothing fires: in training the prior of the other one differs.
TEST(PriorOptionOf, TokensThatDoNotFireHaveAPartInThePrior) {
  ModelConfig config = testing::tiny_amor("mamba2", "classic", true);
  config.gate.blocks = 1;
  const auto model = make_model(config, 1, DType::f64);
  testing::perturb(*model);
  const auto entropies = [&](const Batch& batch) {
    return testing::gate_record(*model, batch).blocks[0].entropies.to_vector<float>();
  };
  std::vector<Batch> silent;  // all of whose first document lies below the threshold
  float threshold = 0;
  for (int64_t salt = 0; salt < 40 && silent.size() < 2; ++salt) {
    const Batch batch = packed_row({some_ids(5, 19, salt), some_ids(9, 19, 2)});
    const std::vector<float> values = entropies(batch);
    const float first = *std::max_element(values.begin(), values.begin() + 5);
    const float second = *std::max_element(values.begin() + 5, values.end());
    if (first >= second - 0.001f) continue;
    silent.push_back(batch);
    threshold = second - 0.001f;
  }
  ASSERT_EQ(silent.size(), 2u);
  model->gates()[0].set_state({threshold, 0.1});
  const auto second_document = [&](const Batch& batch, bool training) {
    EXPECT_GT(testing::fired_count(testing::gate_record(*model, batch).blocks[0]), 0);
    Tape tape(Tape::Mode::off);
    ForwardContext context{.tape = tape, .batch = batch, .training = training};
    return model->hidden(context).value().rows(5, 14).to_vector<double>();
  };
  EXPECT_NE(second_document(silent[0], true), second_document(silent[1], true));
  EXPECT_EQ(second_document(silent[0], false), second_document(silent[1], false));
}

}  // namespace
}  // namespace longhaul
