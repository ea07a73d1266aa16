// The length-aware prior as an option of AMOR and the hybrids.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

/// With a clip of 0 only the scores are left to have a temperature: 0.5, the least, makes them those of doubled
/// queries.
TEST(PriorOptionOf, TemperatureMayDivideTheScores) {
  ModelConfig config = testing::tiny_config("rpa"), plain = config;
  config.rpa.clip = 0;
  config.rpa.temperature_divides = "scores";
  config.rpa.least_temperature = 0.5;
  plain.rpa.prior = "off";
  const auto model = make_model(config, 1, DType::f64), doubled = make_model(plain, 1, DType::f64);
  testing::perturb(*model);
  model->prior_memory()->set_control({.temperature = 0.3, .warm = 1});
  for (const Parameter& parameter : doubled->parameters().parameters()) {
    const Tensor value = parameter.variable.value();
    value.copy_from(model->parameters().find(parameter.name).variable.value());
    if (parameter.name.find("qkv_proj") == std::string::npos) continue;
    for (double& weight : value.rows(0, config.d_model).span<double>()) weight *= 2;
  }
  const Batch batch = packed_row({some_ids(4, 19), some_ids(7, 19, 2)});
  const auto expect_near = [](const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  };
  expect_near(full_logits(*model, batch).to_vector<double>(), full_logits(*doubled, batch).to_vector<double>());
  EXPECT_NEAR(testing::loss_and_gradients(*model, batch, true).loss.cross_entropy,
              testing::loss_and_gradients(*doubled, batch, true).loss.cross_entropy, 1e-11);
  const auto decoded = [](const LanguageModel& decoder) {
    const auto state = decoder.make_decode_state(1, 11);
    return decoder.decode(*state, {some_ids(7, 19, 2)}).to_vector<double>();
  };
  expect_near(decoded(*model), decoded(*doubled));
  model->prior_memory()->set_control({.temperature = 0.3, .warm = 0});
  expect_near(decoded(*model), decoded(*doubled));
}

/// The part of the first layer's memberships whose name ends so.
Tensor first_part(const LanguageModel& model, const std::string& name) {
  for (const Parameter& parameter : model.parameters().parameters())
    if (parameter.name.ends_with(".0.rpa." + name)) return parameter.variable.value();
  ADD_FAILURE() << name;
  return {};
}

/// models.md 7.1 of rows x, by its formula.
std::vector<double> memberships_by_hand(const LanguageModel& model, const Tensor& x) {
  const Tensor weight = first_part(model, "projection.weight"), bias = first_part(model, "projection.bias");
  const Tensor centres = first_part(model, "centres"), log_sigma = first_part(model, "log_sigma");
  const int64_t width = x.size(1), regimes = centres.size(0);
  std::vector<double> all;
  for (int64_t token = 0; token < x.size(0); ++token) {
    std::vector<double> square(static_cast<size_t>(regimes)), shares;
    for (int64_t i = 0; i < width; ++i) {
      double z = bias.data<double>()[i];
      for (int64_t j = 0; j < width; ++j)
        z += weight.data<double>()[i * width + j] * x.data<double>()[token * width + j];
      for (int64_t r = 0; r < regimes; ++r)
        square[static_cast<size_t>(r)] += std::pow(z - centres.data<double>()[r * width + i], 2);
    }
    double sum = 0;
    for (int64_t r = 0; r < regimes; ++r) {
      const double precision = std::clamp(std::exp(-2 * log_sigma.data<double>()[r]), 1e-3, 1e3);
      sum += shares.emplace_back(std::exp(std::clamp(-square[static_cast<size_t>(r)] / 2 * precision, -30.0, 30.0)));
    }
    for (const double share : shares) all.push_back(share / sum);
  }
  return all;
}

TEST(PriorOptionOf, CentresStartAtUnitDistanceAndEverythingElseAtItsConstant) {
  ModelConfig config = testing::tiny_config("rpa");
  config.d_model = 96;
  config.rpa.regimes = 8;
  config.rpa.pos_beta = 0.375;
  const auto model = make_model(config, 1, DType::f64);
  double square = 0;
  const Tensor centres = first_part(*model, "centres");
  for (const double value : centres.span<double>()) square += value * value / 8;
  EXPECT_NEAR(square, 1, 0.15);  // of N(0, 1/d); its own deviation is sqrt(2 / 768)
  EXPECT_EQ(first_part(*model, "log_sigma").to_vector<double>(), std::vector<double>(8, 0.0));
  EXPECT_EQ(first_part(*model, "pos_beta").to_vector<double>(), std::vector<double>{0.375});
}

/// Of the embedding in the first layer of transformer and fused; of what the gate looks at in AMOR.
TEST(PriorOptionOf, MembershipsAreThoseOfTheInputOfTheLayer) {
  for (const char* family : {"rpa", "fused_rpa", "amor"}) {
    SCOPED_TRACE(family);
    const bool gated = std::string(family) == "amor";
    const auto model =
        make_model(gated ? testing::tiny_amor("gdn", "h", true) : testing::tiny_config(family), 1, DType::f64);
    testing::perturb(*model);
    const std::vector<int32_t> ids = some_ids(7, 19, 2);
    const Batch batch = packed_row({ids});
    GateRecord gates{.blocks = {}, .keep_inputs = true};
    PriorRecord record;
    Tape tape(Tape::Mode::off);
    ForwardContext context{.tape = tape, .batch = batch, .training = true, .gates = &gates, .priors = &record};
    model->hidden(context);
    Tensor x = Tensor::empty({7, model->config().d_model}, DType::f64);
    for (int64_t token = 0; token < 7 && !gated; ++token) {
      const char* const name = std::string(family) == "rpa" ? "model.embed_tokens.weight" : "embed.weight";
      const int64_t id = ids[static_cast<size_t>(token)];
      x.rows(token, token + 1).copy_from(model->parameters().find(name).variable.value().rows(id, id + 1));
    }
    if (gated) x = gates.blocks.at(0).inputs;
    const std::vector<double> found = record.layers.at(0).memberships.to_vector<double>();
    const std::vector<double> expected = memberships_by_hand(*model, x);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  }
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
