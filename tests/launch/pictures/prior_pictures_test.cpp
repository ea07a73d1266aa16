#include "launch/pictures/prior_pictures.h"

#include <gmock/gmock.h>

#include "core/models/length_aware_layer.h"
#include "tests/core/models/model_testing.h"
#include "tests/data/data_test_support.h"
#include "tests/kernels/attention_prior_oracle.h"

namespace longhaul {
namespace {

Tensor f32(const Shape& shape, const std::vector<double>& values) {
  return Tensor::from<double>(shape, values).to(DType::f32);
}

TEST(PriorBias, IsTheMatrixOfTheDefinition) {
  for (const int64_t length : {2, 37}) {
    kernels::PriorInputs inputs(length, 3);
    inputs.settings = {.mix = 0.3, .pos_beta = 0.7, .temperature = 0.8, .clip = 1, .warm = 0.5};
    const kernels::PlainPrior expected = kernels::plain_prior(inputs);
    const PriorBias bias({Variable(f32({length, 3}, inputs.memberships)), Variable(f32({3, 3}, inputs.projection)),
                          Variable(f32({1}, {0.7})), f32({length, 3}, inputs.basis), inputs.settings},
                         length);
    EXPECT_FLOAT_EQ(static_cast<float>(bias.limit()), 0.5f);
    bool clips = false;
    for (int64_t query = 0; query < length; ++query) {
      for (int64_t key = 0; key <= query; ++key) {
        const auto at = static_cast<size_t>(query * length + key);
        EXPECT_NEAR(bias.unclipped(query, key), expected.unclipped[at], 1e-5) << query << ", " << key;
        EXPECT_NEAR(bias.clipped(query, key), expected.bias[at], 1e-5) << query << ", " << key;
        clips |= expected.unclipped[at] != expected.bias[at];
      }
    }
    EXPECT_TRUE(clips) << "otherwise the clip is not tested";
  }
}

TEST(PriorSlopes, AreThoseOfTheLayersInOrder) {
  for (const std::string family : {"fuzzy", "amor"}) {
    ModelConfig config = testing::tiny_config(family);
    config.rpa.prior = "on";
    const auto model = make_model(config, 1);
    const std::vector<Variable> slopes = prior_slopes(model->parameters());
    ASSERT_EQ(slopes.size(), static_cast<size_t>(model->prior_memory()->options().layers)) << family;
    const std::string name = family == "amor" ? "amor_blocks.1.rpa.pos_beta" : "fuzzy.h.1.rpa.pos_beta";
    EXPECT_EQ(slopes[1].value().raw(), model->parameters().find(name).variable.value().raw());
  }
}

TEST(PriorPictures, AreOneFilePerLayerAndLength) {
  const TemporaryDirectory directory;
  const auto model = make_model(testing::tiny_config("fuzzy"), 1);
  model->prior_memory()->set_control({.temperature = 0.7, .warm = 1});
  const auto files = write_prior_pictures(*model, {8, 16}, directory / "pictures");
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[1], directory / "pictures" / "length-8-layer-01.svg");
  const std::string picture = read_file(files[3]);
  EXPECT_THAT(picture, ::testing::HasSubstr("layer 1, rows of 16 tokens"));
  EXPECT_THAT(picture, ::testing::HasSubstr("bias that attention adds"));
  EXPECT_THAT(picture, ::testing::HasSubstr("mean memberships"));
  EXPECT_THAT(picture, ::testing::Not(::testing::HasSubstr("nan")));
}

TEST(PriorPictures, WithoutAPriorShowMembershipsAloneAndWithoutThoseNothing) {
  const TemporaryDirectory directory;
  ModelConfig config = testing::tiny_config("fuzzy");
  config.rpa.prior = "off";
  const auto files = write_prior_pictures(*make_model(config, 1), {16}, directory.path());
  const std::string picture = read_file(files.at(0));
  EXPECT_THAT(picture, ::testing::Not(::testing::HasSubstr("bias")));
  EXPECT_THAT(picture, ::testing::HasSubstr("mean memberships"));
  const auto plain = make_model(testing::tiny_config("transformer"), 1);
  EXPECT_THAT(user_error_of([&] { write_prior_pictures(*plain, {16}, directory.path()); }),
              ::testing::HasSubstr("family transformer has no memberships"));
}

}  // namespace
}  // namespace longhaul
