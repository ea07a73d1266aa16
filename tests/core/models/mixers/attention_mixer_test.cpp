#include "core/models/mixers/attention_mixer.h"

#include "tests/core/models/mixers/mixer_testing.h"

namespace longhaul {
namespace {

using testing::MixerUnderTest;

MixerUnderTest make(DType dtype) {
  ModelConfig config;
  config.context_length = 80;
  config.d_model = 8;
  config.n_head = config.n_kv_head = 2;
  config.initializer_range = 0.4;
  return {[](ParameterStore& store, const std::string& prefix, const ModelConfig& c, DType activation) {
            return std::make_unique<AttentionMixer>(store, prefix, c, make_rope_table(c, activation));
          },
          config, dtype};
}

TEST(AttentionMixer, GradientsOfAllParameters) {
  testing::check_mixer_gradients(make(DType::f64), testing::batch_of_documents({3, 1, 5}), 3);
}

TEST(AttentionMixer, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  testing::check_packed_equals_separate(make(DType::f32), {5, 11, 63, 64, 65, 1});
}

TEST(AttentionMixer, DecodingEqualsTheForwardPass) { testing::check_decoding(make(DType::f64)); }

}  // namespace
}  // namespace longhaul
