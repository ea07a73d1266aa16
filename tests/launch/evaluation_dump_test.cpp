#include "launch/evaluation_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "core/io/safetensors.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class EvaluationDump : public ::testing::Test {
 protected:
  fs::path directory_ = fs::temp_directory_path() / ("longhaul-dump-" + std::to_string(getpid()));
  fs::path ids_ = directory_ / "ids.json", dump_ = directory_ / "dump.safetensors";
  void SetUp() override { fs::create_directories(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  static std::unique_ptr<LanguageModel> tiny_model() {
    ModelConfig config;
    config.vocab_size = 11;
    config.context_length = 8;
    config.n_layer = 1;
    config.d_model = 8;
    config.n_head = 2;
    config.initializer_range = 0.5;
    return make_model(config, 2, DType::f64);
  }
  SafetensorsFile dump(const std::string& rows, bool gradients) const {
    write_file_durably(ids_, rows);
    write_evaluation_dump(*tiny_model(), read_dump_rows(ids_), gradients, dump_);
    return SafetensorsFile::open(dump_);
  }
  std::string complaint(const std::string& rows) const {
    try {
      dump(rows, true);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kUser);
      return error.what();
    }
    return "no error";
  }
};

TEST_F(EvaluationDump, PackedDocumentsAddUpToSeparateRows) {
  const SafetensorsFile packed = dump("[[[1, 2, 3], [4], [5, 6]]]", true);
  const double cross_entropy = packed.read("cross_entropy").item<double>();
  const std::vector<float> gradient = packed.read("gradient.model.layers.0.self_attn.k_proj.weight").to_vector<float>();
  EXPECT_EQ(packed.read("valid_targets").item<int64_t>(), 3);
  EXPECT_EQ(packed.read("logits.0").shape(), (Shape{6, 11}));

  const SafetensorsFile separate = dump("[[1, 2, 3], [4], [5, 6]]", true);

  EXPECT_EQ(separate.read("valid_targets").item<int64_t>(), 3);
  EXPECT_NEAR(separate.read("cross_entropy").item<double>(), cross_entropy, 1e-12);
  EXPECT_EQ(separate.read("logits.2").shape(), (Shape{2, 11}));
  const std::vector<float> found = separate.read("gradient.model.layers.0.self_attn.k_proj.weight").to_vector<float>();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], gradient[i], 1e-7);
}

TEST_F(EvaluationDump, GradientsAreOnlyThereOnRequest) {
  EXPECT_EQ(dump("[[1, 2]]", false).entries().size(), 3u);
  EXPECT_EQ(dump("[[1, 2]]", true).entries().size(),
            3u + 11u);  // embedding, two norms, four + three matrices, final norm
}

TEST_F(EvaluationDump, EntropyGatesShowTheirEntropiesAndDecisions) {
  ModelConfig config;
  config.family = "amor";
  config.vocab_size = 11;
  config.context_length = 8;
  config.n_layer = 1;
  config.d_model = 8;
  config.n_head = 2;
  config.mixer_head_size = 4;
  config.state_size = 3;
  config.gate.blocks = 2;
  config.initializer_range = 0.5;
  const auto model = make_model(config, 2);
  write_file_durably(ids_, "[[[1, 2, 3], [4]], [5, 6]]");
  write_evaluation_dump(*model, read_dump_rows(ids_), false, dump_);
  const SafetensorsFile first = SafetensorsFile::open(dump_);
  const std::vector<float> entropies = first.read("entropy.0.1").to_vector<float>();
  ASSERT_EQ(entropies.size(), 4u);

  model->gates()[1].set_state(
      {*std::min_element(entropies.begin(), entropies.end()), 0});  // strictly greater: all but one
  write_evaluation_dump(*model, read_dump_rows(ids_), false, dump_);
  const SafetensorsFile again = SafetensorsFile::open(dump_);

  EXPECT_EQ(again.read("entropy.0.1").to_vector<float>(), entropies);
  std::vector<int32_t> expected;
  for (float entropy : entropies) expected.push_back(entropy > model->gates()[1].threshold() ? 1 : 0);
  EXPECT_EQ(std::count(expected.begin(), expected.end(), 1), 3);
  EXPECT_EQ(again.read("fired.0.1").to_vector<int32_t>(), expected);
  EXPECT_EQ(again.read("fired.1.0").shape(), (Shape{2}));
}

TEST_F(EvaluationDump, RowsThatAreNoTokenIdsAreRefused) {
  EXPECT_THAT(complaint("[1, 2]"), HasSubstr("row 0 is not a list of token ids"));
  EXPECT_THAT(complaint("[[1, 2], [\"a\"]]"), HasSubstr("row 1 is not a list of token ids"));
  EXPECT_THAT(complaint("[[1, 2"), HasSubstr("is not a list of token ids"));
  EXPECT_THAT(complaint("[]"), HasSubstr("holds no rows"));
  EXPECT_THAT(complaint("[[[1], []]]"), HasSubstr("row 0 holds an empty document"));
  EXPECT_THAT(complaint("[[3]]"), HasSubstr("hold no target"));
  EXPECT_THAT(complaint("[[1, 11]]"), HasSubstr("11"));
  EXPECT_THAT(complaint("[[1, 2, 3, 4, 5, 6, 7, 8, 9]]"), HasSubstr("model.context_length 8"));
}

}  // namespace
}  // namespace longhaul
