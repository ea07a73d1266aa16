// A whole Fuzzy Transformer against PyTorch's results in double (tests/oracle/make_prior_golden.py), without PyTorch:
// loss and all gradients in training, logits too in evaluation.
#include <gtest/gtest.h>

#include "core/models/language_model.h"
#include "tests/core/prior_golden.h"

namespace longhaul {
namespace {

// As in make_prior_golden.py.
constexpr int64_t kRows = 2, kLength = 11;

ModelConfig golden_config() {
  ModelConfig config;
  config.family = "fuzzy_transformer";
  config.vocab_size = 37;
  config.context_length = 16;
  config.n_layer = 2;
  config.d_model = 12;
  config.n_head = 3;
  config.label_smoothing = 0.015;
  config.rpa.regimes = 3;
  config.rpa.mix = 0.3;
  config.rpa.clip = 1;
  config.rpa.entropy_share = 0.9;
  return config;
}

/// Ids of a counter; the second row in documents, the last token of each without a target.
Batch golden_batch() {
  std::vector<int32_t> ids, starts, targets;
  for (int64_t i = 0; i < kRows * kLength; ++i) {
    const int64_t t = i % kLength, document = 1 + kLength / 3;
    ids.push_back(static_cast<int32_t>((testing::counted(30, i) + 1) / 2 * 37));
    starts.push_back(static_cast<int32_t>(i < kLength ? 0 : t - t % document));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool last = (i + 1) % kLength == 0 || starts[i + 1] != starts[i];
    targets.push_back(last ? -1 : ids[i + 1]);
  }
  return make_batch(kRows, kLength, ids, targets, starts, {5, 6});
}

class FuzzyGolden : public ::testing::TestWithParam<DType> {
 protected:
  /// With parameters of a counter.
  static std::unique_ptr<LanguageModel> make_model(const ModelConfig& config) {
    std::unique_ptr<LanguageModel> model = longhaul::make_model(config, 1, GetParam());
    std::map<std::string, Variable> by_name;
    for (const Parameter& parameter : model->parameters().parameters())
      by_name.emplace(parameter.name, parameter.variable);
    uint64_t stream = 1000;
    for (const auto& [name, variable] : by_name) {
      const bool gain = name.find("ln_") != std::string::npos && name.ends_with("weight");
      const Tensor values = testing::counted(variable.shape(), stream++, DType::f64, 0.5);
      if (gain || name.ends_with("pos_beta"))
        for (double& value : values.span<double>()) value += 1;
      variable.value().copy_from(values.to(GetParam()));
    }
    model->parameters().bind_gradients(model->parameters().make_flat_buffer(GetParam()));
    return model;
  }

  static void differentiate(testing::PriorGolden& golden, LanguageModel& model, Tape& tape, const LossSums& loss) {
    tape.backward(loss.objective);
    model.parameters().zero_absent_gradients();
    golden.compare("cross_entropy", Tensor::from<double>({1}, {loss.cross_entropy}));
    for (const Parameter& parameter : model.parameters().parameters())
      golden.compare("gradient." + parameter.name, parameter.variable.grad());
  }

  static void compare_training(bool detach) {
    testing::PriorGolden golden(detach ? "training-detached" : "training-attached", GetParam());
    for (const bool recompute : {false, true}) {
      ModelConfig config = golden_config();
      config.rpa.detach = detach;
      config.recompute = recompute;
      const std::unique_ptr<LanguageModel> model = make_model(config);
      model->prior_memory()->set_control({.temperature = 0.8, .warm = 0.75, .lambda_saturation = 0.5});
      const Batch batch = golden_batch();
      Tape tape;
      ForwardContext context{.tape = tape, .batch = batch, .training = true};
      const LossSums loss = model->loss(context);
      golden.compare("objective", loss.objective.value());
      differentiate(golden, *model, tape, loss);
    }
    EXPECT_EQ(golden.compared(), 2 * golden.stored());
  }
};

INSTANTIATE_TEST_SUITE_P(Types, FuzzyGolden, ::testing::Values(DType::f64, DType::f32), testing::type_name);

TEST_P(FuzzyGolden, TrainingAgreesWithPyTorch) { compare_training(true); }
TEST_P(FuzzyGolden, TrainingThroughTheAlignmentAgreesWithPyTorch) { compare_training(false); }

TEST_P(FuzzyGolden, EvaluationWithStoredMeansAgreesWithPyTorch) {
  testing::PriorGolden golden("evaluation", GetParam());
  ModelConfig config = golden_config();
  config.label_smoothing = 0;
  config.moe_experts = 3;
  const std::unique_ptr<LanguageModel> model = make_model(config);
  PriorMemory& memory = *model->prior_memory();
  memory.set_control({.temperature = 0.8, .warm = 0.75});
  memory.observe(kLength, golden.read("input.memberships").view({config.n_layer, kLength, config.rpa.regimes}),
                 golden.read("input.alignment").view({config.n_layer, config.rpa.regimes, config.rpa.regimes}));
  const Batch batch = golden_batch();
  Tape tape;
  ForwardContext context{.tape = tape, .batch = batch};
  golden.compare("logits", model->logits(model->hidden(context).value()));
  Tape second;
  ForwardContext again{.tape = second, .batch = batch};
  differentiate(golden, *model, second, model->loss(again));
  EXPECT_EQ(golden.compared(), golden.stored() - 2);
}

}  // namespace
}  // namespace longhaul
