#include "core/models/mixers/fused_mixer.h"

#include "tests/core/models/mixers/mixer_testing.h"

namespace longhaul {
namespace {

using testing::MixerUnderTest;

class Fused : public ::testing::TestWithParam<std::string> {
 protected:
  MixerUnderTest make(DType dtype) const {
    ModelConfig config;
    config.family = "fused";
    config.mixer = GetParam();
    config.context_length = 80;
    config.d_model = 8;
    config.n_head = 2;
    config.n_kv_head = 2;
    config.mixer_head_size = 4;
    config.state_size = 3;
    config.delta_key_size = 3;
    config.delta_value_size = 4;
    config.norm_epsilon = 1e-2;  // a short state gives the norm little to divide by, and differences bend
    config.initializer_range = 0.4;
    return {[](ParameterStore& store, const std::string& prefix, const ModelConfig& c, DType activation) {
              return std::make_unique<FusedMixer>(store, prefix, c, activation, make_rope_table(c, activation));
            },
            config, dtype};
  }
};
INSTANTIATE_TEST_SUITE_P(Recurrences, Fused, ::testing::Values("mamba2", "gdn"));

TEST_P(Fused, GradientsOfAllParameters) {
  testing::check_mixer_gradients(make(DType::f64), testing::batch_of_documents({3, 1, 5}), 5);
}

TEST_P(Fused, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  testing::check_packed_equals_separate(make(DType::f32), {5, 11, 63, 64, 65, 1});
}

TEST_P(Fused, DecodingEqualsTheForwardPass) { testing::check_decoding(make(DType::f64)); }

TEST_P(Fused, IsTheMeanOfBothNormedHalves) {
  const MixerUnderTest m = make(DType::f64);
  const Batch batch = testing::batch_of_documents({4, 3});
  const Tensor x = testing::random_tensor({7, 8}, 4);
  const auto zero = [&](const std::string& name, double value) {
    for (double& w : m.store.find("m." + name).variable.value().span<double>()) w = value;
  };
  const auto output = [&](double attention, double recurrent) {
    zero("attention_norm.weight", attention);
    zero("recurrent_norm.weight", recurrent);
    return m.forward(x, batch).to_vector<double>();
  };
  const auto attended = output(2, 0), recurrent = output(0, 2), both = output(1, 1);
  double most = 0;
  for (size_t i = 0; i < both.size(); ++i) {
    EXPECT_NEAR(both[i], (attended[i] + recurrent[i]) / 2, 1e-12);
    most = std::max(most, std::abs(attended[i] - recurrent[i]));
  }
  EXPECT_GT(most, 0.1);
}

}  // namespace
}  // namespace longhaul
