#include "launch/interop/huggingface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "launch/interop/huggingface_names.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HuggingFace : public ::testing::Test {
 protected:
  fs::path root_ = fs::temp_directory_path() / ("longhaul-huggingface-" + std::to_string(getpid()));
  fs::path directory_ = root_ / "model";
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  static ModelConfig tiny(const std::string& family) {
    ModelConfig config;
    config.family = family;
    config.vocab_size = 13;
    config.context_length = 9;
    config.n_layer = 2;
    config.d_model = 8;
    config.n_head = 4;
    config.n_kv_head = family == "gpt2" ? 0 : 2;
    config.d_ff = family == "gpt2" ? 0 : 10;
    if (family != "gpt2") config.rope_base = 5000;
    return config;
  }
  std::string import_complaint() const {
    try {
      import_huggingface(directory_);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kUser) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(directory_.string()));
      return error.what();
    }
    return "no error";
  }
  /// config.json of an exported gpt2 with `from` replaced by `to`.
  void change_config(const std::string& from, const std::string& to) const {
    std::string text = read_file(directory_ / "config.json");
    ASSERT_NE(text.find(from), std::string::npos) << from;
    write_file_durably(directory_ / "config.json", text.replace(text.find(from), from.size(), to));
  }
};

TEST_F(HuggingFace, ExportThenImportGivesTheSameModel) {
  for (const char* family : {"gpt2", "transformer"}) {
    for (bool tied : {true, false}) {
      ModelConfig config = tiny(family);
      config.tie_embeddings = tied;
      const auto model = make_model(config, 3);
      export_huggingface(*model, directory_);

      const auto found = import_huggingface(directory_);

      EXPECT_EQ(found->config(), model->config()) << family;
      EXPECT_EQ(found->parameters().flat_values().to_vector<float>(),
                model->parameters().flat_values().to_vector<float>());
      EXPECT_EQ(SafetensorsFile::open(directory_ / "model.safetensors").contains("lm_head.weight"), !tied);
      fs::remove_all(directory_);
    }
  }
}

TEST_F(HuggingFace, Gpt2MatricesAreTransposedAndLlamaMatricesSplit) {
  export_huggingface(*make_model(tiny("gpt2"), 3), directory_);
  const SafetensorsFile gpt2 = SafetensorsFile::open(directory_ / "model.safetensors");
  EXPECT_EQ(gpt2.read("transformer.h.1.attn.c_attn.weight").shape(), (Shape{8, 24}));
  EXPECT_EQ(gpt2.read("transformer.h.1.mlp.c_fc.weight").shape(), (Shape{8, 32}));
  EXPECT_EQ(gpt2.read("transformer.wpe.weight").shape(), (Shape{9, 8}));
  fs::remove_all(directory_);

  const auto model = make_model(tiny("transformer"), 3);
  export_huggingface(*model, directory_);
  const SafetensorsFile llama = SafetensorsFile::open(directory_ / "model.safetensors");
  EXPECT_EQ(llama.read("model.layers.0.self_attn.q_proj.weight").shape(), (Shape{8, 8}));
  EXPECT_EQ(llama.read("model.layers.0.self_attn.v_proj.weight").shape(), (Shape{4, 8}));
  EXPECT_EQ(llama.read("model.layers.0.mlp.up_proj.weight").to_vector<float>(),
            model->parameters()
                .find("model.layers.0.mlp.gate_up_proj.weight")
                .variable.value()
                .rows(10, 20)
                .to_vector<float>());
}

TEST_F(HuggingFace, BaseModelNamesAndOldBuffersAreAccepted) {
  const auto model = make_model(tiny("gpt2"), 3);
  export_huggingface(*model, directory_);
  std::vector<NamedTensor> tensors = huggingface_tensors(*model);
  for (NamedTensor& entry : tensors) entry.name = entry.name.substr(std::string("transformer.").size());
  tensors.push_back({"h.0.attn.bias", Tensor::zeros({1, 1, 9, 9}, DType::f32)});
  tensors.push_back({"h.0.attn.masked_bias", Tensor::zeros({1}, DType::f32)});
  tensors.push_back({"lm_head.weight", Tensor::zeros({13, 8}, DType::f32)});  // a copy of the tied embedding: ignored
  write_safetensors(directory_ / "model.safetensors", tensors);

  EXPECT_EQ(import_huggingface(directory_)->parameters().flat_values().to_vector<float>(),
            model->parameters().flat_values().to_vector<float>());
}

TEST_F(HuggingFace, ShardedDirectoriesAreRead) {
  const auto model = make_model(tiny("transformer"), 3);
  export_huggingface(*model, directory_);
  std::vector<NamedTensor> tensors = huggingface_tensors(*model);
  const std::vector<NamedTensor> first(tensors.begin(), tensors.begin() + 4),
      second(tensors.begin() + 4, tensors.end());
  fs::remove(directory_ / "model.safetensors");
  write_safetensors(directory_ / "a.safetensors", first);
  write_safetensors(directory_ / "b.safetensors", second);
  write_file_durably(directory_ / "model.safetensors.index.json",
                     R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})");

  EXPECT_EQ(import_huggingface(directory_)->parameters().flat_values().to_vector<float>(),
            model->parameters().flat_values().to_vector<float>());

  write_file_durably(directory_ / "model.safetensors.index.json", R"({"weight_map": {"x": "../a.safetensors"}})");
  EXPECT_THAT(import_complaint(), HasSubstr("expected a file of the same directory"));
}

TEST_F(HuggingFace, ConvertsOtherElementTypes) {
  const auto model = make_model(tiny("transformer"), 3);
  export_huggingface(*model, directory_);
  std::vector<NamedTensor> tensors = huggingface_tensors(*model);
  for (NamedTensor& entry : tensors) entry.tensor = entry.tensor.to(DType::bf16);
  write_safetensors(directory_ / "model.safetensors", tensors);

  const auto found = import_huggingface(directory_, DType::f64);

  const Tensor expected = model->parameters().find("model.norm.weight").variable.value().to(DType::bf16).to(DType::f32);
  EXPECT_EQ(found->parameters().find("model.norm.weight").variable.value().to(DType::f32).to_vector<float>(),
            expected.to_vector<float>());
}

TEST_F(HuggingFace, MissingMisshapenAndUnexpectedTensorsAreNamed) {
  const auto model = make_model(tiny("gpt2"), 3);
  export_huggingface(*model, directory_);
  const std::vector<NamedTensor> good = huggingface_tensors(*model);
  const auto with = [&](const auto& change) {
    std::vector<NamedTensor> tensors = good;
    change(tensors);
    write_safetensors(directory_ / "model.safetensors", tensors);
    return import_complaint();
  };
  EXPECT_THAT(with([](auto& t) { std::erase_if(t, [](auto& e) { return e.name == "transformer.ln_f.bias"; }); }),
              HasSubstr("tensor 'transformer.ln_f.bias' is missing"));
  EXPECT_THAT(with([](auto& t) { t.push_back({"extra", Tensor::zeros({1}, DType::f32)}); }), HasSubstr("'extra'"));
  EXPECT_THAT(with([](auto& t) {
                for (auto& e : t) {
                  if (e.name == "transformer.wte.weight") e.tensor = Tensor::zeros({14, 8}, DType::f32);
                }
              }),
              HasSubstr("'transformer.wte.weight' has shape [14, 8]; config.json asks for [13, 8]"));
  EXPECT_THAT(with([](auto& t) { t[0].tensor = Tensor::zeros(t[0].tensor.shape(), DType::i32); }),
              HasSubstr("holds integers"));
  fs::remove(directory_ / "model.safetensors");
  EXPECT_THAT(import_complaint(), HasSubstr("neither model.safetensors nor"));
}

TEST_F(HuggingFace, OptionsThatCannotBeComputedAreNamed) {
  const auto fresh = [&](const char* family) {
    fs::remove_all(directory_);
    export_huggingface(*make_model(tiny(family), 3), directory_);
  };
  const auto expect = [&](const char* family, const std::string& from, const std::string& to, const char* reason) {
    fresh(family);
    change_config(from, to);
    EXPECT_THAT(import_complaint(), HasSubstr(reason)) << to;
  };
  expect("gpt2", "\"gelu_new\"", "\"relu\"", "activation_function is \"relu\"; expected gelu_new");
  expect("gpt2", "\"model_type\": \"gpt2\"", "\"model_type\": \"bert\"", "model_type is 'bert'");
  expect("gpt2", "\"n_embd\": 8", "\"n_embd\": \"8\"", "n_embd is \"8\"; expected an integer");
  expect("gpt2", "\"n_head\": 4", "\"n_head\": 3", "model.n_head 3 does not divide");
  expect("gpt2", "\"n_layer\": 2", "\"scale_attn_by_inverse_layer_idx\": true, \"n_layer\": 2",
         "scale_attn_by_inverse_layer_idx is true; expected false");
  expect("transformer", "\"silu\"", "\"gelu\"", "hidden_act");
  expect("transformer", "\"attention_bias\": false", "\"attention_bias\": true",
         "attention_bias is true; expected false");
  expect("transformer", "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", "rope_parameters is \"yarn\"");
  expect("transformer", "\"head_dim\": 2", "\"head_dim\": 4", "head_dim is 4; expected 2");
  expect("gpt2", "{", "", "not valid JSON");
  fs::remove(directory_ / "config.json");
  EXPECT_THAT(import_complaint(), HasSubstr("no config.json"));
}

TEST_F(HuggingFace, ExportRefusesADirectoryWithContent) {
  fs::create_directories(directory_);
  write_file_durably(directory_ / "precious", "x");
  EXPECT_THROW(export_huggingface(*make_model(tiny("gpt2"), 3), directory_), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST(HuggingFaceNames, PartsCoverEveryRowOnce) {
  ModelConfig config;
  config.vocab_size = 11;
  config.n_kv_head = 3;
  const auto model = make_model(resolved(config), 0);
  std::set<std::string> names;
  for (const Parameter& parameter : model->parameters().parameters()) {
    int64_t row = 0;
    for (const HuggingFacePart& part : huggingface_parts(model->config(), parameter)) {
      EXPECT_EQ(part.begin, row);
      EXPECT_TRUE(names.insert(part.name).second) << part.name;
      row = part.end;
    }
    EXPECT_EQ(row, parameter.shape()[0]) << parameter.name;
  }
}

}  // namespace
}  // namespace longhaul
