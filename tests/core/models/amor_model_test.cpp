#include "core/models/amor_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/core/error_check.h"
#include "tests/core/models/amor_testing.h"

namespace longhaul {
namespace {

using testing::fired_count;
using testing::full_logits;
using testing::gate_record;
using testing::loss_and_gradients;
using testing::packed_row;
using testing::some_ids;
using testing::tiny_amor;

Batch three_documents() { return packed_row({some_ids(9, 19), some_ids(1, 19, 1), some_ids(14, 19, 2)}); }

std::unique_ptr<LanguageModel> open_model(const ModelConfig& config, DType dtype = DType::f64) {
  auto model = make_model(config, 1, dtype);
  testing::perturb(*model);
  testing::open_gates(*model, three_documents());
  return model;
}

void set_gates(LanguageModel& model, double mean) {
  for (EntropyGate& gate : model.gates()) gate.set_state({mean, 0.1});
}

class Amor : public ::testing::TestWithParam<testing::AmorVariant> {
 protected:
  static ModelConfig config() { return tiny_amor(GetParam().mixer, GetParam().mode, GetParam().prior); }
};
INSTANTIATE_TEST_SUITE_P(Variants, Amor, ::testing::ValuesIn(testing::amor_variants()),
                         [](const auto& variant) { return testing::name_of(variant.param); });

TEST_P(Amor, StartsAsItsBackboneWhateverFires) {
  const auto model = make_model(config(), 1);
  set_gates(*model, 2);
  const std::vector<float> silent = full_logits(*model, three_documents()).to_vector<float>();
  set_gates(*model, -1);
  EXPECT_EQ(full_logits(*model, three_documents()).to_vector<float>(), silent);
  EXPECT_EQ(fired_count(gate_record(*model, three_documents()).blocks[0]), 24);
}

TEST_P(Amor, FiringChangesTheFiredTokensDocumentsOnly) {
  const auto model = make_model(config(), 1);
  testing::perturb(*model);
  const Batch batch = three_documents();
  set_gates(*model, 2);
  const Tensor silent = full_logits(*model, batch);
  // The last token alone fires in block 0.
  const std::vector<float> entropies = gate_record(*model, batch).blocks[0].entropies.to_vector<float>();
  const size_t most = static_cast<size_t>(std::max_element(entropies.begin(), entropies.end()) - entropies.begin());
  model->gates()[0].set_state({std::nextafter(entropies[most], 0.0f), 0.1});
  const Tensor open = full_logits(*model, batch);
  const int64_t row = static_cast<int64_t>(most);
  EXPECT_EQ(fired_count(gate_record(*model, batch).blocks[0]), 1);
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(silent.rows(i, i + 1).to_vector<float>() == open.rows(i, i + 1).to_vector<float>(), i != row) << i;
  }
}

TEST_P(Amor, GradientsAgreeWithCentralDifferences) {
  const auto model = open_model(config());
  const Batch batch = three_documents();
  for (const GateRecord::Block& block : gate_record(*model, batch).blocks) {
    EXPECT_GT(fired_count(block), 3);
    EXPECT_LT(fired_count(block), 21);
  }
  const Tensor flat = loss_and_gradients(*model, batch, true).flat;
  for (const Parameter& parameter : model->parameters().parameters()) {
    const std::span<double> values = parameter.variable.value().span<double>();
    const std::vector<double> original(values.begin(), values.end());
    double expected = 0;
    const auto objective = [&](double step) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = original[i] + ((i * i + i / 3) % 2 == 0 ? step : -step);
      return loss_and_gradients(*model, batch, true).objective;
    };
    for (int64_t i = 0; i < parameter.count(); ++i) {
      expected += ((i * i + i / 3) % 2 == 0 ? 1 : -1) * flat.data<double>()[parameter.offset + i];
    }
    const double measured = (objective(1e-6) - objective(-1e-6)) / 2e-6;
    std::copy(original.begin(), original.end(), values.begin());
    EXPECT_NEAR(measured, expected, 2e-6 * std::max(1.0, std::abs(expected))) << parameter.name;
  }
}

TEST_P(Amor, CompactedAndDenseAttentionAgree) {
  ModelConfig dense = config();
  dense.gate.attention = "dense";
  const auto a = open_model(config()), b = open_model(dense);
  const auto left = loss_and_gradients(*a, three_documents(), true);
  const auto right = loss_and_gradients(*b, three_documents(), true);
  EXPECT_NEAR(left.objective, right.objective, 1e-12 * std::abs(left.objective));
  for (int64_t i = 0; i < left.flat.count(); ++i) {
    EXPECT_NEAR(left.flat.data<double>()[i], right.flat.data<double>()[i], 1e-10) << i;
  }
}

TEST_P(Amor, RecomputationKeepsTheGateAndTheBits) {
  ModelConfig again = config();
  again.recompute = true;
  again.gate.update = "before";  // a gate decided anew would see a state that has moved on
  ModelConfig once = again;
  once.recompute = false;
  const auto a = open_model(once, DType::f32), b = open_model(again, DType::f32);
  const auto left = loss_and_gradients(*a, three_documents(), true);
  const auto right = loss_and_gradients(*b, three_documents(), true);
  EXPECT_EQ(left.objective, right.objective);
  EXPECT_EQ(std::memcmp(left.flat.raw(), right.flat.raw(), static_cast<size_t>(left.flat.bytes())), 0);
}

TEST_P(Amor, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  const auto model = open_model(config(), DType::f32);
  const std::vector<std::vector<int32_t>> documents{some_ids(9, 19), some_ids(1, 19, 1), some_ids(14, 19, 2)};
  const Tensor packed = full_logits(*model, packed_row(documents));
  int64_t row = 0;
  for (size_t index = 0; index < documents.size(); ++index) {
    const int64_t length = static_cast<int64_t>(documents[index].size());
    const Tensor apart = testing::logits_apart(*model, documents, index);
    EXPECT_EQ(packed.rows(row, row + length).to_vector<float>(), apart.to_vector<float>()) << "document at " << row;
    row += length;
  }
}

TEST_P(Amor, GradientsOfADocumentDoNotDependOnItsNeighbour) {
  const auto model = open_model(config(), DType::f32);
  const auto gradients = [&](int64_t salt) {
    Batch batch = packed_row({some_ids(9, 19, salt), some_ids(14, 19, 2)});
    std::fill_n(batch.targets.data<int32_t>(), 9, -1);
    return loss_and_gradients(*model, batch).flat.to_vector<float>();
  };
  EXPECT_EQ(gradients(0), gradients(3));
}

TEST_P(Amor, SilentBlocksGiveNoGradientToQueriesOutputsAndAlpha) {
  const auto model = make_model(config(), 1, DType::f64);
  testing::perturb(*model);
  set_gates(*model, 2);
  const Tensor flat = loss_and_gradients(*model, three_documents(), true).flat;
  for (const Parameter& parameter : model->parameters().parameters()) {
    const bool of_memberships = parameter.name.find(".rpa.") != std::string::npos;  // kept from collapsing anyway
    if (parameter.name.rfind("amor_blocks", 0) != 0 || of_memberships) continue;
    for (int64_t i = 0; i < parameter.count(); ++i) {
      EXPECT_EQ(flat.data<double>()[parameter.offset + i], 0) << parameter.name;
    }
  }
}

TEST(AmorModel, RegistersTheParametersOfTheSpecification) {
  const auto model = make_model(tiny_amor("mamba2", "classic"), 1);
  const auto shape = [&](const char* name) { return model->parameters().find(name).shape().text(); };
  EXPECT_EQ(shape("embed.weight"), "[19, 24]");
  EXPECT_EQ(shape("amor_blocks.1.q_proj.weight"), "[24, 24]");
  EXPECT_EQ(shape("amor_blocks.1.kv_proj.weight"), "[48, 24]");
  EXPECT_EQ(shape("amor_blocks.0.out_proj.weight"), "[24, 24]");
  EXPECT_EQ(shape("amor_pre_norms.1.weight"), "[24]");
  EXPECT_EQ(shape("final_norm.weight"), "[24]");
  EXPECT_EQ(model->parameters().find("amor_blocks.0.raw_alpha").decay, WeightDecay::no);
  EXPECT_THROW(model->parameters().find("amor_pre_norms.0.weight"), Error);
  for (const float value : model->parameters().find("amor_blocks.0.out_proj.weight").variable.value().span<float>()) {
    EXPECT_EQ(value, 0);
  }
}

TEST(AmorModel, UpdateBeforeComparesWithItsOwnBatchAndOnlyInTraining) {
  ModelConfig config = tiny_amor("mamba2", "classic");
  config.gate.update = "before";
  config.gate.momentum = 0.5;
  const auto model = make_model(config, 1);
  testing::perturb(*model);
  const Batch batch = three_documents();
  const auto pass = [&](bool training) {
    GateRecord record;
    Tape tape(Tape::Mode::off);
    ForwardContext context{.tape = tape, .batch = batch, .training = training, .gates = &record};
    model->hidden(context);
    return record.blocks[0];
  };
  EXPECT_EQ(pass(false).threshold, 0.3f);
  const GateRecord::Block block = pass(true);
  std::vector<float> valid = valid_entropies(block.entropies, batch.targets);
  std::sort(valid.begin(), valid.end());
  ASSERT_EQ(valid.size(), 21u);
  EXPECT_EQ(block.next.mean, 0.5 * 0.3 + 0.5 * static_cast<double>(valid[10]));
  EXPECT_EQ(block.threshold, static_cast<float>(block.next.mean));
  EXPECT_EQ(model->gates()[0].state().mean, 0.3);  // kept by the trainer, not here
}

TEST(AmorModel, CountsTheGatesProductsOncePerToken) {
  const auto model = make_model(tiny_amor("mamba2", "classic"), 1);
  double head = 0, gates = 0;
  for (const LayerFlops& layer : model->flops(16)) {
    if (layer.layer == "head") head = layer.per_token;
    if (layer.layer == "gates") gates = layer.per_token;
    EXPECT_EQ(layer.has_backward, layer.layer != "gates");
  }
  EXPECT_EQ(head, 2.0 * 24 * 19);
  EXPECT_EQ(gates, 2 * head);
}

}  // namespace
}  // namespace longhaul
