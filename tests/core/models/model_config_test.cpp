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

}  // namespace
}  // namespace longhaul
