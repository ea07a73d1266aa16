// Whole-model gradients in double against central differences, and what must not change them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/core/models/model_testing.h"

namespace longhaul {
namespace {

using testing::loss_and_gradients;
using testing::packed_row;
using testing::some_ids;
using testing::tiny_config;

std::unique_ptr<LanguageModel> perturbed_model(const ModelConfig& config, DType dtype = DType::f64) {
  auto model = make_model(config, 1, dtype);
  testing::perturb(*model);
  return model;
}

Batch three_documents() { return packed_row({some_ids(4, 19), some_ids(1, 19, 1), some_ids(6, 19, 2)}); }

/// Derivative of the objective along a direction of +-1 in one parameter.
double central_difference(LanguageModel& model, const Batch& batch, const Parameter& parameter,
                          const std::vector<double>& direction) {
  constexpr double kStep = 1e-5;
  const std::span<double> values = parameter.variable.value().span<double>();
  const std::vector<double> original(values.begin(), values.end());
  const auto objective = [&](double step) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = original[i] + step * direction[i];
    return loss_and_gradients(model, batch, true).objective;
  };
  const double near = objective(kStep) - objective(-kStep), far = objective(2 * kStep) - objective(-2 * kStep);
  const double difference = (8 * near - far) / (12 * kStep);  // fourth order: normed keys bend strongly
  std::copy(original.begin(), original.end(), values.begin());
  return difference;
}

void check_gradients(const ModelConfig& config) {
  const auto model = perturbed_model(config);
  const Batch batch = three_documents();
  const Tensor flat = loss_and_gradients(*model, batch, true).flat;
  for (const Parameter& parameter : model->parameters().parameters()) {
    std::vector<double> direction;
    double expected = 0;
    for (int64_t i = 0; i < parameter.count(); ++i) {
      direction.push_back((i * i + i / 3) % 2 == 0 ? 1.0 : -1.0);
      expected += direction.back() * flat.data<double>()[parameter.offset + i];
    }
    const double measured = central_difference(*model, batch, parameter, direction);
    EXPECT_NEAR(measured, expected, 1e-6 * std::max(1.0, std::abs(expected))) << parameter.name;
  }
}

class ModelGradient : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, ModelGradient, ::testing::ValuesIn(testing::all_and_length_aware_families()),
                         [](const auto& family) { return testing::identifier(family.param); });

TEST_P(ModelGradient, AgreesWithCentralDifferencesTied) { check_gradients(tiny_config(GetParam())); }

TEST_P(ModelGradient, AgreesWithCentralDifferencesUntiedWithDropoutSmoothingAndZLoss) {
  ModelConfig config = tiny_config(GetParam());
  config.tie_embeddings = false;
  config.dropout = 0.2;
  config.label_smoothing = 0.1;
  config.z_loss = 0.01;
  check_gradients(config);
}

TEST_P(ModelGradient, HasTheSameBitsWithRecomputation) {
  for (DType dtype : {DType::f32, DType::f64}) {
    ModelConfig config = tiny_config(GetParam());
    config.dropout = 0.2;
    const auto plain = perturbed_model(config, dtype);
    config.recompute = true;
    const auto recomputed = perturbed_model(config, dtype);

    const auto expected = loss_and_gradients(*plain, three_documents(), true);
    const auto found = loss_and_gradients(*recomputed, three_documents(), true);

    EXPECT_EQ(found.objective, expected.objective);
    EXPECT_EQ(std::memcmp(found.flat.raw(), expected.flat.raw(), static_cast<size_t>(expected.flat.bytes())), 0);
  }
}

TEST_P(ModelGradient, RecomputationSurvivesTheForwardContext) {
  ModelConfig config = tiny_config(GetParam());
  config.recompute = true;
  config.dropout = 0.2;
  const auto model = perturbed_model(config);
  const Tensor expected = loss_and_gradients(*model, three_documents(), true).flat;
  const Tensor flat = model->parameters().make_flat_buffer(DType::f64);
  model->parameters().bind_gradients(flat);
  Tape tape;
  Variable objective;
  {
    const Batch batch = three_documents();
    ForwardContext context{tape, batch, true, 3, 4};
    objective = model->loss(context).objective;
  }
  tape.backward(objective);

  EXPECT_EQ(flat.to_vector<double>(), expected.to_vector<double>());
}

TEST_P(ModelGradient, IsThatOfTheSumOverTargetsAndEmptyBatchesGiveZero) {
  const auto model = perturbed_model(tiny_config(GetParam()));
  const Batch one = packed_row({some_ids(5, 19)});
  Batch none = packed_row({some_ids(5, 19)});
  std::fill_n(none.targets.data<int32_t>(), 5, -1);

  const auto found = loss_and_gradients(*model, none);

  EXPECT_EQ(loss_and_gradients(*model, one).loss.valid_targets, 4);
  EXPECT_EQ(found.loss.valid_targets, 0);
  EXPECT_EQ(found.loss.cross_entropy, 0);
  for (double value : found.flat.span<double>()) EXPECT_EQ(value, 0);
}

TEST_P(ModelGradient, DropoutIsOffOutsideTraining) {
  ModelConfig config = tiny_config(GetParam());
  const auto plain = perturbed_model(config);
  config.dropout = 0.5;
  const auto dropping = perturbed_model(config);

  EXPECT_EQ(loss_and_gradients(*dropping, three_documents(), false).objective,
            loss_and_gradients(*plain, three_documents(), false).objective);
  EXPECT_NE(loss_and_gradients(*dropping, three_documents(), true).objective,
            loss_and_gradients(*plain, three_documents(), true).objective);
}

}  // namespace
}  // namespace longhaul
