#include "launch/evaluation_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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
