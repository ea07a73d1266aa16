#include "core/models/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/core/models/model_testing.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig one_layer(const std::string& family) {
  ModelConfig config = testing::tiny_config(family);
  config.n_layer = 1;
  config.tie_embeddings = false;
  return config;
}

/// Names in forward order (the store keeps them in reverse), a '+' in front of those that are decayed.
std::vector<std::string> listed_parameters(const LanguageModel& model) {
  std::vector<std::string> names;
  for (const Parameter& parameter : model.parameters().parameters()) {
    names.insert(names.begin(), (parameter.decay == WeightDecay::yes ? "+" : "") + parameter.name);
  }
  return names;
}

TEST(LanguageModel, Gpt2RegistersItsParametersInForwardOrderAndDecaysMatricesOnly) {
  EXPECT_THAT(
      listed_parameters(*make_model(one_layer("gpt2"), 0)),
      ElementsAre("+transformer.wte.weight", "+transformer.wpe.weight", "transformer.h.0.ln_1.weight",
                  "transformer.h.0.ln_1.bias", "+transformer.h.0.attn.c_attn.weight",
                  "transformer.h.0.attn.c_attn.bias", "+transformer.h.0.attn.c_proj.weight",
                  "transformer.h.0.attn.c_proj.bias", "transformer.h.0.ln_2.weight", "transformer.h.0.ln_2.bias",
                  "+transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_fc.bias",
                  "+transformer.h.0.mlp.c_proj.weight", "transformer.h.0.mlp.c_proj.bias", "transformer.ln_f.weight",
                  "transformer.ln_f.bias", "+lm_head.weight"));
}

TEST(LanguageModel, TransformerRegistersItsParametersInForwardOrderAndDecaysMatricesOnly) {
  EXPECT_THAT(listed_parameters(*make_model(one_layer("gqa"), 0)),
              ElementsAre("+model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
                          "+model.layers.0.self_attn.qkv_proj.weight", "+model.layers.0.self_attn.o_proj.weight",
                          "model.layers.0.post_attention_layernorm.weight", "+model.layers.0.mlp.gate_up_proj.weight",
                          "+model.layers.0.mlp.down_proj.weight", "model.norm.weight", "+lm_head.weight"));
}

TEST(LanguageModel, SerialRegistersMambaAndAttentionLayersAndDecaysMatricesOnly) {
  ModelConfig config = testing::tiny_config("serial");
  config.tie_embeddings = false;
  EXPECT_THAT(
      listed_parameters(*make_model(config, 0)),
      ElementsAre("+embed.weight", "layers.0.norm.weight", "+layers.0.mixer.in_proj.weight",
                  "layers.0.mixer.conv1d.weight", "layers.0.mixer.conv1d.bias", "layers.0.mixer.dt_bias",
                  "layers.0.mixer.A_log", "layers.0.mixer.D", "layers.0.mixer.norm.weight",
                  "+layers.0.mixer.out_proj.weight", "layers.0.mlp_norm.weight", "+layers.0.mlp.gate_up_proj.weight",
                  "+layers.0.mlp.down_proj.weight", "layers.1.norm.weight", "+layers.1.mixer.qkv_proj.weight",
                  "+layers.1.mixer.o_proj.weight", "layers.1.mlp_norm.weight", "+layers.1.mlp.gate_up_proj.weight",
                  "+layers.1.mlp.down_proj.weight", "norm_f.weight", "+lm_head.weight"));
}

TEST(LanguageModel, MixersAloneHaveNoFeedForwardLayers) {
  ModelConfig config = testing::tiny_config("mamba2");
  config.feed_forward = false;
  const auto model = make_model(config, 0);
  for (const Parameter& parameter : model->parameters().parameters()) {
    EXPECT_EQ(parameter.name.find("mlp"), std::string::npos) << parameter.name;
  }
  for (const LayerFlops& layer : model->flops(9)) EXPECT_NE(layer.layer, "feed-forward");
  EXPECT_EQ(testing::full_logits(*model, testing::packed_row({testing::some_ids(5, 19)})).size(0), 5);
}

double deviation(const LanguageModel& model, const std::string& name) {
  const auto values = model.parameters().find(name).variable.value().to_vector<float>();
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(LanguageModel, InitialisationScalesTheResidualProjectionsOfGpt2) {
  ModelConfig config = testing::tiny_config("gpt2");
  config.d_model = 120;
  config.initializer_range = 0.02;
  config.n_layer = 8;
  const auto model = make_model(config, 7);
  EXPECT_NEAR(deviation(*model, "transformer.h.3.attn.c_attn.weight"), 0.02, 0.0005);
  EXPECT_NEAR(deviation(*model, "transformer.h.3.attn.c_proj.weight"), 0.02 / 4, 0.0002);
  EXPECT_NEAR(deviation(*model, "transformer.h.3.mlp.c_proj.weight"), 0.02 / 4, 0.0002);
  EXPECT_EQ(deviation(*model, "transformer.h.3.mlp.c_fc.bias"), 0);
  EXPECT_EQ(deviation(*model, "transformer.h.3.ln_1.weight"), 1);
}

TEST(LanguageModel, InitialisationOfMamba2IsThePublishedOne) {
  ModelConfig config = testing::tiny_config("mamba2");
  config.d_model = 192;  // 64 heads
  const auto model = make_model(config, 7);
  const auto values = [&](const char* name) {
    return model->parameters().find(std::string("layers.1.mixer.") + name).variable.value().to_vector<float>();
  };
  const std::vector<float> a_log = values("A_log"), bias = values("dt_bias");
  ASSERT_EQ(a_log.size(), 64u);
  double mean_log_step = 0;
  for (size_t head = 0; head < 64; ++head) {
    EXPECT_NEAR(std::exp(a_log[head]), head + 1, 1e-4);
    const double step = std::log1p(std::exp(static_cast<double>(bias[head])));
    EXPECT_GE(step, 0.999e-3);
    EXPECT_LE(step, 1.001e-1);
    mean_log_step += std::log10(step) / 64;
  }
  EXPECT_NEAR(mean_log_step, -2, 0.25);  // uniform in the logarithm from -3 to -1
  EXPECT_THAT(values("D"), ::testing::Each(1.0f));
  EXPECT_THAT(values("norm.weight"), ::testing::Each(1.0f));
  const float bound = 1 / std::sqrt(3.0f);  // three taps
  for (const char* name : {"conv1d.weight", "conv1d.bias"}) {
    const std::vector<float> drawn = values(name);
    EXPECT_LE(*std::max_element(drawn.begin(), drawn.end()), bound);
    EXPECT_GT(*std::max_element(drawn.begin(), drawn.end()), 0.9f * bound);
    EXPECT_LT(*std::min_element(drawn.begin(), drawn.end()), -0.9f * bound);
  }
}

TEST(LanguageModel, SeedDecidesTheWeights) {
  const auto a = make_model(one_layer("gpt2"), 1), b = make_model(one_layer("gpt2"), 1),
             c = make_model(one_layer("gpt2"), 2);
  EXPECT_EQ(a->parameters().flat_values().to_vector<float>(), b->parameters().flat_values().to_vector<float>());
  EXPECT_NE(a->parameters().flat_values().to_vector<float>(), c->parameters().flat_values().to_vector<float>());
}

TEST(LanguageModel, LossIsTheCrossEntropyOfTheLogits) {
  for (const std::string& family : testing::all_families()) {
    const auto model = make_model(testing::tiny_config(family), 1, DType::f64);
    const Batch batch = testing::packed_row({testing::some_ids(5, 19), testing::some_ids(3, 19, 1)});
    Tape tape(Tape::Mode::off);
    ForwardContext context{tape, batch};
    const LossSums loss = model->loss(context);
    const Tensor logits = testing::full_logits(*model, batch);
    double expected = 0;
    for (int64_t row = 0; row < 8; ++row) {
      const int32_t target = batch.targets.data<int32_t>()[row];
      if (target < 0) continue;
      double sum = 0;
      for (double value : logits.rows(row, row + 1).span<double>()) sum += std::exp(value);
      expected += std::log(sum) - logits.rows(row, row + 1).data<double>()[target];
    }
    EXPECT_NEAR(loss.cross_entropy, expected, 1e-9) << family;
    EXPECT_NEAR(loss.objective.value().item<double>(), expected, 1e-9) << family;
    EXPECT_EQ(loss.valid_targets, 6);
  }
}

TEST(LanguageModel, WeightsStoredInBf16ComputeInSinglePrecision) {
  for (const std::string& family : testing::all_families()) {
    const auto stored = make_model(testing::tiny_config(family), 1, DType::bf16);
    const auto single = make_model(testing::tiny_config(family), 1, DType::f32);
    for (const Parameter& parameter : single->parameters().parameters()) {
      parameter.variable.value().copy_from(stored->parameters().find(parameter.name).variable.value().to(DType::f32));
    }
    const Batch batch = testing::packed_row({testing::some_ids(7, 19)});
    const Tensor logits = testing::full_logits(*stored, batch), expected = testing::full_logits(*single, batch);
    ASSERT_EQ(logits.dtype(), DType::f32);
    for (int64_t i = 0; i < logits.count(); ++i) {
      EXPECT_NEAR(logits.data<float>()[i], expected.data<float>()[i], 1e-5) << family;
    }
    const auto state = stored->make_decode_state(1, 8);
    const Tensor decoded = stored->decode(*state, {testing::some_ids(7, 19)});
    for (int64_t i = 0; i < 19; ++i) EXPECT_NEAR(decoded.data<float>()[i], expected.data<float>()[6 * 19 + i], 1e-4);
  }
}

TEST(LanguageModel, FlopsOfGpt2AreCountedByHand) {
  ModelConfig config = testing::tiny_config("gpt2");
  config.n_layer = 3;
  const auto flops = make_model(config, 0)->flops(9);
  ASSERT_EQ(flops.size(), 4u);
  EXPECT_EQ(flops[0].per_token, 3 * 2 * (15 * 45 + 15 * 15));  // q, k, v and the output projection
  EXPECT_EQ(flops[1].per_token, 3 * 2 * 2 * 15 * 5);           // (9 + 1) / 2 keys on average
  EXPECT_EQ(flops[2].per_token, 3 * 2 * 2 * 15 * 60);
  EXPECT_EQ(flops[3].per_token, 2 * 15 * 19);
}

TEST(LanguageModel, FlopsOfGroupedQueriesAreCountedByHand) {
  const auto flops = make_model(testing::tiny_config("gqa"), 0)->flops(1);
  EXPECT_EQ(flops[0].per_token, 2 * 2 * 24 * (24 + 12 + 12 + 24));
  EXPECT_EQ(flops[1].per_token, 2 * 2 * 2 * 24);
  EXPECT_EQ(flops[2].per_token, 2 * 2 * 24 * 17 * 3);
}

TEST(LanguageModel, FlopsOfSerialAreCountedByHandAndSummedByKind) {
  const auto flops = make_model(testing::tiny_config("serial"), 0)->flops(9);
  std::vector<std::string> kinds;
  for (const LayerFlops& layer : flops) kinds.push_back(layer.layer);
  ASSERT_THAT(kinds, ElementsAre("mixer input projection", "mixer convolution", "state-space scan",
                                 "mixer output projection", "attention scores", "feed-forward", "head"));
  EXPECT_EQ(flops[0].per_token, 2 * 24 * (48 + 58 + 8 + 3 * 24));  // z, x B C, dt of layer 0; q, k, v of layer 1
  EXPECT_EQ(flops[1].per_token, 2 * 58 * 3);
  EXPECT_EQ(flops[2].per_token, 5 * 48 * 5);
  EXPECT_EQ(flops[3].per_token, 2 * 24 * (48 + 24));
  EXPECT_EQ(flops[4].per_token, 2 * 2 * 24 * 5);
  EXPECT_EQ(flops[5].per_token, 2 * 2 * 24 * 17 * 3);
  EXPECT_EQ(flops[6].per_token, 2 * 24 * 19);
}

class TooLong : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, TooLong, ::testing::Values("transformer", "mamba2"));

TEST_P(TooLong, RowsAndForeignIdsAreRefused) {
  const auto model = make_model(testing::tiny_config(GetParam()), 0);
  const auto complaint = [&](const Batch& batch) -> std::string {
    try {
      testing::full_logits(*model, batch);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kUser);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(complaint(testing::packed_row({testing::some_ids(12, 19)})), HasSubstr("model.context_length 11"));
  EXPECT_THAT(complaint(testing::packed_row({{3, 19}})), HasSubstr("19"));
  EXPECT_THAT(complaint(testing::packed_row({{-2, 1}})), HasSubstr("-2"));
}

TEST(LanguageModel, MembershipsCountInFlopsOfTheLayersThatHaveThem) {
  const auto memberships = [](const ModelConfig& config) {
    double sum = 0;
    for (const LayerFlops& layer : make_model(config, 1)->flops(8))
      sum += layer.layer == "memberships" ? layer.per_token : 0;
    return sum;
  };
  ModelConfig serial = testing::tiny_config("serial");
  EXPECT_EQ(memberships(serial), 0);
  serial.rpa.prior = "on";
  EXPECT_EQ(memberships(serial), 2 * 24 * (24 + 3));  // attention in one layer of two
  EXPECT_EQ(memberships(testing::tiny_config("fuzzy")), 2 * (2 * 15 * (15 + 3)));
}

TEST(LanguageModel, PartsOfAFuzzyTransformerTellItsEmbeddingFromItsBlocks) {
  const ModelConfig config = testing::tiny_config("fuzzy");
  const std::vector<ParameterPart> parts = count_parameter_parts(config);
  ASSERT_FALSE(parts.empty());
  EXPECT_EQ(parts[0].name, "embedding");
  EXPECT_EQ(parts[0].parameters, (config.vocab_size + config.context_length) * config.d_model);
}

}  // namespace
}  // namespace longhaul
