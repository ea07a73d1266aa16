#include "core/models/mixers/mamba2_mixer.h"

#include <cmath>

#include "tests/core/models/mixers/mixer_testing.h"

namespace longhaul {
namespace {

using testing::MixerUnderTest;

ModelConfig small_config() {
  ModelConfig config;
  config.d_model = 6;
  config.expand = 2;
  config.mixer_head_size = 4;
  config.state_size = 3;
  config.initializer_range = 0.4;
  return config;
}

MixerUnderTest make(DType dtype) {
  return {[](auto&&... arguments) { return std::make_unique<Mamba2Mixer>(arguments...); }, small_config(), dtype};
}

TEST(Mamba2, GradientsOfAllParameters) {
  testing::check_mixer_gradients(make(DType::f64), testing::batch_of_documents({3, 1, 5}), 3);
}

TEST(Mamba2, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  testing::check_packed_equals_separate(make(DType::f32), {5, 11, 63, 64, 65, 1});
}

TEST(Mamba2, DecodingEqualsTheForwardPass) { testing::check_decoding(make(DType::f64)); }

TEST(Mamba2, StartsAsPublished) {
  const MixerUnderTest m = make(DType::f32);
  const auto values = [&](const std::string& name) {
    return m.store.find("m." + name).variable.value().to_vector<float>();
  };
  for (size_t head = 0; head < 3; ++head) {
    EXPECT_FLOAT_EQ(values("A_log")[head], std::log(static_cast<float>(head + 1)));
    const double step = std::log1p(std::exp(static_cast<double>(values("dt_bias")[head])));
    EXPECT_GE(step, 0.999e-3);
    EXPECT_LE(step, 1.001e-1);
  }
  EXPECT_EQ(values("D"), std::vector<float>(3, 1.0f));
  EXPECT_EQ(values("norm.weight"), std::vector<float>(12, 1.0f));
  for (const float value : values("conv1d.weight")) EXPECT_LE(std::abs(value), 0.5f);
  for (const Parameter& parameter : m.store.parameters()) {
    const bool matrix = parameter.name.ends_with("_proj.weight");
    EXPECT_EQ(parameter.decay == WeightDecay::yes, matrix) << parameter.name;
  }
}

}  // namespace
}  // namespace longhaul
