#include "core/models/mixers/gated_delta_mixer.h"

#include <cmath>

#include "tests/core/models/mixers/mixer_testing.h"

namespace longhaul {
namespace {

using testing::MixerUnderTest;

ModelConfig small_config() {
  ModelConfig config;
  config.d_model = 6;
  config.delta_heads = 2;
  config.delta_key_size = 3;
  config.delta_value_size = 4;
  config.initializer_range = 0.4;
  return config;
}

MixerUnderTest make(DType dtype, const ModelConfig& config = small_config()) {
  return {[](auto&&... arguments) { return std::make_unique<GatedDeltaMixer>(arguments...); }, config, dtype};
}

TEST(GatedDeltaNet, GradientsOfAllParameters) {
  testing::check_mixer_gradients(make(DType::f64), testing::batch_of_documents({3, 1, 5}), 3);
}

TEST(GatedDeltaNet, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  testing::check_packed_equals_separate(make(DType::f32), {5, 11, 63, 64, 65, 1});
}

TEST(GatedDeltaNet, DecodingEqualsTheForwardPass) { testing::check_decoding(make(DType::f64)); }

TEST(GatedDeltaNet, StartsAsPublished) {
  ModelConfig config = small_config();
  config.delta_heads = 40;
  const MixerUnderTest m = make(DType::f32, config);
  const auto values = [&](const std::string& name) {
    return m.store.find("m." + name).variable.value().to_vector<float>();
  };
  for (const float value : values("A_log")) {
    EXPECT_GE(value, 0.0f);
    EXPECT_LE(value, std::log(16.0f));
  }
  for (const float value : values("dt_bias")) {
    const double step = std::log1p(std::exp(static_cast<double>(value)));
    EXPECT_GE(step, 0.999e-3);
    EXPECT_LE(step, 1.001e-1);
  }
  for (const float value : values("conv1d.weight")) EXPECT_LE(std::abs(value), 0.5f);
  EXPECT_EQ(values("o_norm.weight"), std::vector<float>(4, 1.0f));
  EXPECT_EQ(m.store.find("m.in_proj.weight").shape(), (Shape{40 * (2 * 3 + 2 * 4 + 2), 6}));
  EXPECT_EQ(m.store.find("m.o_proj.weight").shape(), (Shape{6, 40 * 4}));
  for (const Parameter& parameter : m.store.parameters()) {
    const bool matrix = parameter.name.ends_with("_proj.weight");
    EXPECT_EQ(parameter.decay == WeightDecay::yes, matrix) << parameter.name;
  }
}

}  // namespace
}  // namespace longhaul
