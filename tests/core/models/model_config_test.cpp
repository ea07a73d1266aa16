#include "core/models/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/models/language_model.h"

namespace longhaul {
namespace {

ModelConfig gpt2(int64_t layers, int64_t width, int64_t heads) {
  ModelConfig config;
  config.family = "gpt2";
  config.vocab_size = 50257;
  config.n_layer = layers;
  config.d_model = width;
  config.n_head = heads;
  return config;
}

TEST(CountParameters, GivesThePublishedSizesOfGpt2) {
  EXPECT_EQ(count_parameters(gpt2(12, 768, 12)), 124'439'808);
  EXPECT_EQ(count_parameters(gpt2(24, 1024, 16)), 354'823'168);
  EXPECT_EQ(count_parameters(gpt2(36, 1280, 20)), 774'030'080);
  EXPECT_EQ(count_parameters(gpt2(48, 1600, 25)), 1'557'611'200);
}

TEST(CountParameters, CountsTheOutputMatrixOnceWhenTied) {
  ModelConfig config;
  config.vocab_size = 100;
  config.d_model = 32;
  config.n_head = 4;
  config.n_kv_head = 2;
  config.n_layer = 3;
  config.d_ff = 48;
  const int64_t block = 32 * (32 + 2 * 16) + 32 * 32 + 3 * 32 * 48 + 2 * 32;
  EXPECT_EQ(count_parameters(config), 100 * 32 + 3 * block + 32);
  config.tie_embeddings = false;
  EXPECT_EQ(count_parameters(config), 2 * 100 * 32 + 3 * block + 32);
}

TEST(ResolvedModelConfig, FillsInWhatZeroStandsFor) {
  const ModelConfig a = resolved(gpt2(12, 768, 12));
  EXPECT_EQ(a.d_ff, 3072);
  EXPECT_EQ(a.n_kv_head, 12);
  EXPECT_EQ(a.norm_epsilon, 1e-5);

  ModelConfig transformer;
  transformer.d_model = 768;
  const ModelConfig b = resolved(transformer);
  EXPECT_EQ(b.d_ff, 2048);
  EXPECT_EQ(b.norm_epsilon, 1e-6);
  transformer.d_model = 100;
  transformer.n_head = 5;
  EXPECT_EQ(resolved(transformer).d_ff, 320);  // 266.7 up to a multiple of 64
  EXPECT_EQ(resolved(b), b);
}

template <typename Change>
std::string complaint(Change change) {
  ModelConfig config;
  config.vocab_size = 100;
  change(config);
  try {
    make_model(config, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kUser);
    return error.what();
  }
  return "no error";
}

TEST(ResolvedModelConfig, NamesTheKeyOfEveryImpossibleValue) {
  using ::testing::HasSubstr;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(complaint([](auto& c) { c.family = "rnn"; }), HasSubstr("model.family is 'rnn'"));
  EXPECT_THAT(complaint([](auto& c) { c.vocab_size = 0; }), HasSubstr("model.vocab_size"));
  EXPECT_THAT(complaint([](auto& c) { c.vocab_size = 1ll << 31; }), HasSubstr("model.vocab_size"));
  EXPECT_THAT(complaint([](auto& c) { c.context_length = 0; }), HasSubstr("model.context_length"));
  EXPECT_THAT(complaint([](auto& c) { c.n_layer = -1; }), HasSubstr("model.n_layer"));
  EXPECT_THAT(complaint([](auto& c) { c.d_model = 0; }), HasSubstr("model.d_model"));
  EXPECT_THAT(complaint([](auto& c) { c.n_head = 7; }), HasSubstr("model.n_head 7"));
  EXPECT_THAT(complaint([](auto& c) { c.n_kv_head = 5; }), HasSubstr("model.n_kv_head 5"));
  EXPECT_THAT(complaint([](auto& c) { c.n_kv_head = 4, c.family = "gpt2"; }), HasSubstr("model.n_kv_head is 4"));
  EXPECT_THAT(complaint([](auto& c) { c.n_head = 256; }), HasSubstr("odd size 3"));
  EXPECT_THAT(complaint([](auto& c) { c.d_ff = -1; }), HasSubstr("model.d_ff"));
  EXPECT_THAT(complaint([](auto& c) { c.dropout = 1; }), HasSubstr("model.dropout"));
  EXPECT_THAT(complaint([nan](auto& c) { c.dropout = nan; }), HasSubstr("model.dropout"));
  EXPECT_THAT(complaint([](auto& c) { c.rope_base = 0; }), HasSubstr("model.rope_base"));
  EXPECT_THAT(complaint([](auto& c) { c.norm_epsilon = -1; }), HasSubstr("model.norm_epsilon"));
  EXPECT_THAT(complaint([nan](auto& c) { c.initializer_range = nan; }), HasSubstr("model.initializer_range"));
  EXPECT_THAT(complaint([](auto& c) { c.label_smoothing = 1; }), HasSubstr("model.label_smoothing"));
  EXPECT_THAT(complaint([](auto& c) { c.z_loss = -0.1; }), HasSubstr("model.z_loss"));
  EXPECT_THAT(complaint([](auto& c) { c.loss_chunk_bytes = 0; }), HasSubstr("model.loss_chunk_bytes"));
}

TEST(ResolvedModelConfig, CountsTheHeadsOfGatedDeltaNet) {
  ModelConfig config;
  config.family = "gdn";
  EXPECT_EQ(resolved(config).delta_heads, 9);
  EXPECT_EQ(resolved(resolved(config)), resolved(config));
  config.family = "fused";
  config.mixer = "gdn";
  EXPECT_EQ(resolved(config).delta_heads, 6);  // 6 x 128 fill 768
  EXPECT_EQ(resolved(resolved(config)), resolved(config));
}

TEST(ResolvedModelConfig, NamesTheKeyOfImpossibleRecurrences) {
  using ::testing::HasSubstr;
  const auto of = [](const char* family, auto change) {
    return complaint([&](ModelConfig& config) {
      config.family = family;
      change(config);
    });
  };
  EXPECT_THAT(of("serial", [](auto& c) { c.mixer = "lstm"; }), HasSubstr("model.mixer is 'lstm'"));
  EXPECT_THAT(of("serial", [](auto& c) { c.attention_every = 0; }), HasSubstr("model.attention_every is 0"));
  EXPECT_THAT(of("mamba2", [](auto& c) { c.expand = 0; }), HasSubstr("model.expand is 0"));
  EXPECT_THAT(of("mamba2", [](auto& c) { c.state_size = 0; }), HasSubstr("model.state_size is 0"));
  EXPECT_THAT(of("mamba2", [](auto& c) { c.mixer_head_size = 100; }), HasSubstr("model.mixer_head_size 100"));
  EXPECT_THAT(of("fused", [](auto& c) { c.mixer_head_size = 1536; }), HasSubstr("model.mixer_head_size 1536"));
  EXPECT_THAT(of("mamba2", [](auto& c) { c.convolution_width = 9; }), HasSubstr("model.convolution_width is 9"));
  EXPECT_THAT(of("gdn", [](auto& c) { c.d_model = 700; }), HasSubstr("model.delta_heads is 0"));
  EXPECT_THAT(of("gdn", [](auto& c) { c.delta_key_size = 0; }), HasSubstr("model.delta_key_size is 0"));
  EXPECT_THAT(of("fused", [](auto& c) { c.mixer = "gdn", c.delta_heads = 5; }), HasSubstr("delta_heads 5"));
  EXPECT_THAT(of("serial", [](auto& c) { c.n_head = 7; }), HasSubstr("model.n_head 7"));
  EXPECT_EQ(of("mamba2", [](auto& c) { c.n_layer = 1, c.d_model = 64, c.n_head = 7; }), "no error");  // no attention
}

TEST(ResolvedModelConfig, NamesTheKeyOfImpossibleGates) {
  using ::testing::HasSubstr;
  const auto of = [](auto change) {
    return complaint([&](ModelConfig& config) {
      config.family = "amor";
      change(config.gate);
    });
  };
  EXPECT_THAT(of([](auto& g) { g.blocks = 0; }), HasSubstr("gate.blocks is 0"));
  EXPECT_THAT(of([](auto& g) { g.mode = "x"; }), HasSubstr("gate.mode is 'x'; expected one of classic, h"));
  EXPECT_THAT(of([](auto& g) { g.threshold = "x"; }), HasSubstr("gate.threshold"));
  EXPECT_THAT(of([](auto& g) { g.update = "x"; }), HasSubstr("gate.update"));
  EXPECT_THAT(of([](auto& g) { g.attention = "x"; }), HasSubstr("gate.attention"));
  EXPECT_THAT(of([](auto& g) { g.product = "x"; }), HasSubstr("gate.product"));
  EXPECT_THAT(of([](auto& g) { g.momentum = 1.5; }), HasSubstr("gate.momentum is 1.5"));
  EXPECT_THAT(of([](auto& g) { g.initial_mean = -1; }), HasSubstr("gate.initial_mean"));
  EXPECT_THAT(of([](auto& g) { g.kappa = std::numeric_limits<double>::infinity(); }), HasSubstr("gate.kappa"));
}

TEST(ResolvedModelConfig, PriorNeedsALayerWithAttention) {
  ModelConfig config;
  config.vocab_size = 100;
  config.family = "serial";
  config.n_layer = config.attention_every = 6;
  config.rpa.prior = "on";
  EXPECT_TRUE(resolved(config).has_prior());
  EXPECT_THAT(complaint([](auto& c) { c.family = "serial", c.n_layer = 5, c.attention_every = 6, c.rpa.prior = "on"; }),
              ::testing::HasSubstr("model.attention_every 6 is beyond model.n_layer 5"));
}

TEST(ResolvedModelConfig, NamesTheKeyOfImpossibleTemperatures) {
  const auto of = [](auto change) {
    return complaint([&](auto& c) { c.family = "fuzzy_transformer", c.vocab_size = 100, change(c.rpa); });
  };
  EXPECT_THAT(of([](auto& r) { r.least_temperature = 0; }), ::testing::HasSubstr("rpa.least_temperature is 0"));
  EXPECT_THAT(of([](auto& r) { r.least_temperature = 2; }), ::testing::HasSubstr("rpa.most_temperature is 1.6"));
  EXPECT_THAT(of([](auto& r) { r.temperature_divides = "x"; }), ::testing::HasSubstr("rpa.temperature_divides is 'x'"));
}

TEST(CountParameters, NamesThePartsOfAModel) {
  ModelConfig config;
  config.family = "amor";
  config.vocab_size = 100;
  config.d_model = 64;
  config.n_head = 4;
  config.n_layer = 1;
  config.feed_forward = false;
  config.gate.blocks = 2;
  const auto parts = count_parameter_parts(config);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "embedding");
  EXPECT_EQ(parts[0].parameters, 100 * 64);
  EXPECT_EQ(parts[1].name, "backbone");  // in_proj, convolution, dt_bias, A_log and D, norms, out_proj
  EXPECT_EQ(parts[1].parameters, 64 * (2 * 128 + 256 + 2) + 384 * 5 + 3 * 2 + 128 + 128 * 64 + 2 * 64);
  EXPECT_EQ(parts[2].name, "attention blocks");
  EXPECT_EQ(parts[2].parameters, 2 * (4 * 64 * 64 + 64) + 2 * 64);
  EXPECT_EQ(count_parameters(config), parts[0].parameters + parts[1].parameters + parts[2].parameters);
}

}  // namespace
}  // namespace longhaul
