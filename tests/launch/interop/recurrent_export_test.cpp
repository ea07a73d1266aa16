// Export and import of the recurrent families and of AMOR: names, layouts, configuration, gate statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "launch/interop/huggingface.h"
#include "launch/interop/huggingface_names.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

class RecurrentExport : public ::testing::Test {
 protected:
  fs::path root_ = fs::temp_directory_path() / ("longhaul-recurrent-export-" + std::to_string(getpid()));
  fs::path directory_ = root_ / "model";
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  static ModelConfig tiny(const std::string& family, const std::string& mixer = "mamba2") {
    ModelConfig config;
    config.family = family;
    config.mixer = mixer;
    config.vocab_size = 13;
    config.context_length = 9;
    config.n_layer = 2;
    config.d_model = 8;
    config.n_head = 2;
    config.d_ff = 10;
    config.attention_every = 2;
    config.mixer_head_size = 4;
    config.state_size = 3;
    config.delta_heads = family == "fused" ? 0 : 3;
    config.delta_key_size = 2;
    config.delta_value_size = 4;
    if (family == "amor") config.gate.kappa = 0.125;
    return config;
  }
  static ModelConfig mixers_alone() {
    ModelConfig config;
    config.family = "mamba2";
    config.feed_forward = false;
    config.vocab_size = 13;
    config.context_length = 9;
    config.n_layer = 2;
    config.d_model = 8;
    config.mixer_head_size = 4;
    config.state_size = 3;
    return config;
  }
  static std::vector<ModelConfig> all() {
    std::vector<ModelConfig> configs = {tiny("mamba2"), mixers_alone(), tiny("gdn", "gdn")};
    for (const char* mixer : {"mamba2", "gdn"}) {
      for (const char* family : {"serial", "fused", "amor"}) configs.push_back(tiny(family, mixer));
    }
    return configs;
  }
  static std::set<std::string> names(const LanguageModel& model) {
    std::set<std::string> names;
    for (const NamedTensor& entry : huggingface_tensors(model)) names.insert(entry.name);
    return names;
  }
  std::string import_complaint() const {
    try {
      import_huggingface(directory_);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kUser) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(directory_.string()));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "no error";
  }
  /// The exported tensors, changed and written back.
  template <typename Change>
  void change_tensors(Change change) const {
    const SafetensorsFile file = SafetensorsFile::open(directory_ / "model.safetensors");
    std::vector<NamedTensor> tensors;
    for (const auto& [name, entry] : file.entries()) tensors.push_back({name, file.read(name)});
    change(tensors);
    write_safetensors(directory_ / "model.safetensors", tensors);
  }
  void change_config(const std::string& from, const std::string& to) const {
    std::string text = read_file(directory_ / "config.json");
    ASSERT_NE(text.find(from), std::string::npos) << from;
    write_file_durably(directory_ / "config.json", text.replace(text.find(from), from.size(), to));
  }
};

TEST_F(RecurrentExport, ExportThenImportGivesTheSameModelAndGates) {
  for (ModelConfig config : all()) {
    for (bool tied : {true, false}) {
      config.tie_embeddings = tied;
      const auto model = make_model(config, 3);
      double value = 0.1;
      for (EntropyGate& gate : model->gates()) gate.set_state({value += 0.1, value / 3});
      export_huggingface(*model, directory_);

      const auto found = import_huggingface(directory_);

      EXPECT_EQ(found->config(), model->config()) << config.family;
      EXPECT_EQ(found->parameters().flat_values().to_vector<float>(),
                model->parameters().flat_values().to_vector<float>());
      ASSERT_EQ(found->gates().size(), model->gates().size());
      for (size_t i = 0; i < model->gates().size(); ++i) {
        EXPECT_EQ(found->gates()[i].state(), model->gates()[i].state());
      }
      fs::remove_all(directory_);
    }
  }
}

TEST_F(RecurrentExport, PartsCoverEveryRowOnce) {
  for (const ModelConfig& config : all()) {
    const auto model = make_model(config, 0);
    std::set<std::string> seen;
    for (const Parameter& parameter : model->parameters().parameters()) {
      int64_t row = 0;
      for (const HuggingFacePart& part : huggingface_parts(model->config(), parameter)) {
        EXPECT_EQ(part.begin, row);
        EXPECT_TRUE(seen.insert(part.name).second) << part.name;
        row = part.end;
      }
      EXPECT_EQ(row, parameter.shape()[0]) << config.family << " " << parameter.name;
    }
  }
}

TEST_F(RecurrentExport, Mamba2HasTheNamesOfTransformers) {
  const std::set<std::string> expected = {"backbone.embeddings.weight",
                                          "backbone.norm_f.weight",
                                          "backbone.layers.1.norm.weight",
                                          "backbone.layers.1.mixer.in_proj.weight",
                                          "backbone.layers.1.mixer.conv1d.bias",
                                          "backbone.layers.1.mixer.conv1d.weight",
                                          "backbone.layers.1.mixer.dt_bias",
                                          "backbone.layers.1.mixer.A_log",
                                          "backbone.layers.1.mixer.D",
                                          "backbone.layers.1.mixer.norm.weight",
                                          "backbone.layers.1.mixer.out_proj.weight"};
  EXPECT_THAT(names(*make_model(mixers_alone(), 0)), IsSupersetOf(expected));

  export_huggingface(*make_model(mixers_alone(), 0), directory_);
  const SafetensorsFile file = SafetensorsFile::open(directory_ / "model.safetensors");
  EXPECT_EQ(file.read("backbone.layers.0.mixer.conv1d.weight").shape(), (Shape{22, 1, 4}));  // 16 + 2 * 3 channels
  const std::string config = read_file(directory_ / "config.json");
  EXPECT_THAT(config, HasSubstr("\"model_type\": \"mamba2\""));
  EXPECT_THAT(config, HasSubstr("\"num_heads\": 4"));
}

TEST_F(RecurrentExport, AmorHasTheNamesOfThePublishedCode) {
  const std::set<std::string> blocks = {"embed.weight",
                                        "norm_f.weight",
                                        "final_norm.weight",
                                        "amor_blocks.2.q_proj.weight",
                                        "amor_pre_norms.1.weight",
                                        "amor_pre_norms.2.weight",
                                        "amor_blocks.2.kv_proj.k_proj.weight",
                                        "amor_blocks.2.kv_proj.v_proj.weight",
                                        "amor_blocks.2.out_proj.weight",
                                        "amor_blocks.2.raw_alpha"};
  const std::set<std::string> mamba2 = {"ssd_layers.1.norm.weight", "ssd_layers.1.mixer.in_proj.weight",
                                        "mlp_norms.1.weight",       "mlps.1.gate_proj.weight",
                                        "mlps.1.up_proj.weight",    "mlps.1.down_proj.weight"};
  const std::set<std::string> gdn = {
      "layers.1.norm_ssm.weight",     "layers.1.norm_mlp.weight",     "layers.1.mlp.gate_proj.weight",
      "layers.1.gdn.q_proj.weight",   "layers.1.gdn.k_proj.weight",   "layers.1.gdn.v_proj.weight",
      "layers.1.gdn.a_proj.weight",   "layers.1.gdn.b_proj.weight",   "layers.1.gdn.g_proj.weight",
      "layers.1.gdn.o_proj.weight",   "layers.1.gdn.q_conv1d.weight", "layers.1.gdn.k_conv1d.weight",
      "layers.1.gdn.v_conv1d.weight", "layers.1.gdn.A_log",           "layers.1.gdn.dt_bias",
      "layers.1.gdn.o_norm.weight"};
  const std::set<std::string> of_mamba2 = names(*make_model(tiny("amor", "mamba2"), 0));
  const std::set<std::string> of_gdn = names(*make_model(tiny("amor", "gdn"), 0));
  EXPECT_THAT(of_mamba2, IsSupersetOf(blocks));
  EXPECT_THAT(of_mamba2, IsSupersetOf(mamba2));
  EXPECT_THAT(of_gdn, IsSupersetOf(blocks));
  EXPECT_THAT(of_gdn, IsSupersetOf(gdn));
  EXPECT_FALSE(of_gdn.contains("amor_pre_norms.0.weight"));

  export_huggingface(*make_model(tiny("amor", "gdn"), 0), directory_);
  const SafetensorsFile file = SafetensorsFile::open(directory_ / "model.safetensors");
  EXPECT_EQ(file.read("amor_blocks.1.gate.running_threshold").item<double>(), 0.3);
  EXPECT_EQ(file.read("amor_blocks.1.gate.running_std").item<double>(), 0.1);
  EXPECT_EQ(file.read("lm_head.weight").to_vector<float>(), file.read("embed.weight").to_vector<float>());
  EXPECT_EQ(file.read("layers.0.gdn.v_conv1d.weight").shape(), (Shape{12, 1, 4}));
}

TEST_F(RecurrentExport, DeltaProjectionsAreRunsOfRowsOfTheFusedMatrix) {
  const auto model = make_model(tiny("gdn", "gdn"), 3);
  const Tensor fused = model->parameters().find("layers.1.mixer.in_proj.weight").variable.value();
  const std::vector<std::pair<std::string, int64_t>> order = {{"q", 6},  {"k", 6}, {"v", 12},
                                                              {"g", 12}, {"b", 3}, {"a", 3}};
  std::map<std::string, Tensor> tensors;
  for (const NamedTensor& entry : huggingface_tensors(*model)) tensors[entry.name] = entry.tensor;
  int64_t row = 0;
  for (const auto& [name, rows] : order) {
    EXPECT_EQ(tensors.at("layers.1.gdn." + name + "_proj.weight").to_vector<float>(),
              fused.rows(row, row + rows).to_vector<float>())
        << name;
    row += rows;
  }
}

TEST_F(RecurrentExport, NormsBeforeBlocksMayBeCountedFromZero) {
  const auto model = make_model(tiny("amor"), 3);
  const Tensor gain = model->parameters().find("amor_pre_norms.2.weight").variable.value();
  gain.data<float>()[0] = 7;
  export_huggingface(*model, directory_);
  change_tensors([](auto& tensors) {
    for (NamedTensor& entry : tensors) {
      if (entry.name == "amor_pre_norms.1.weight") entry.name = "amor_pre_norms.0.weight";
    }
    for (NamedTensor& entry : tensors) {
      if (entry.name == "amor_pre_norms.2.weight") entry.name = "amor_pre_norms.1.weight";
    }
  });
  EXPECT_EQ(import_huggingface(directory_)->parameters().flat_values().to_vector<float>(),
            model->parameters().flat_values().to_vector<float>());
}

TEST_F(RecurrentExport, MissingAndForeignTensorsAreNamed) {
  export_huggingface(*make_model(tiny("amor", "gdn"), 3), directory_);
  change_tensors([](auto& t) { t.push_back({"layers.0.gdn.D", Tensor::zeros({3}, DType::f32)}); });
  EXPECT_THAT(import_complaint(), HasSubstr("tensor 'layers.0.gdn.D' belongs to no parameter"));
  change_tensors([](auto& t) { std::erase_if(t, [](auto& e) { return e.name == "amor_blocks.1.gate.running_std"; }); });
  EXPECT_THAT(import_complaint(), HasSubstr("tensor 'amor_blocks.1.gate.running_std' is missing"));
  change_tensors([](auto& t) {
    t.push_back({"amor_blocks.1.gate.running_std", Tensor::zeros({2}, DType::f32)});
    std::erase_if(t, [](auto& e) { return e.name == "layers.0.gdn.D"; });
  });
  EXPECT_THAT(import_complaint(), HasSubstr("'amor_blocks.1.gate.running_std' has shape [2]; expected one number"));
  change_tensors([](auto& t) { std::erase_if(t, [](auto& e) { return e.name == "layers.1.gdn.a_proj.weight"; }); });
  EXPECT_THAT(import_complaint(), HasSubstr("tensor 'layers.1.gdn.a_proj.weight' is missing"));
}

TEST_F(RecurrentExport, ConfigurationsThatCannotBeComputedAreNamed) {
  const auto expect = [&](const ModelConfig& config, const std::string& from, const std::string& to,
                          const char* reason) {
    fs::remove_all(directory_);
    export_huggingface(*make_model(config, 3), directory_);
    change_config(from, to);
    EXPECT_THAT(import_complaint(), HasSubstr(reason)) << to;
  };
  const ModelConfig mamba2 = mixers_alone(), amor = tiny("amor");
  expect(mamba2, "\"n_groups\": 1", "\"n_groups\": 8", "n_groups is 8; expected 1");
  expect(mamba2, "\"num_heads\": 4", "\"num_heads\": 5", "num_heads is 5; expected 4");
  expect(mamba2, "\"use_bias\": false", "\"use_bias\": true", "use_bias is true; expected false");
  expect(mamba2, "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-06",
         "layer_norm_epsilon is 1e-06; expected 1e-05");
  expect(mamba2, "\"use_bias\": false", "\"time_step_limit\": [0.0, 0.1], \"use_bias\": false", "time_step_limit");
  expect(amor, "\"n_head\": 2", "\"n_heads\": 2", "model.n_heads is no key of the configuration");
  expect(amor, "\"n_head\": 2", "\"n_head\": \"two\"", "model.n_head");
  expect(amor, "\"n_head\": 2", "\"n_head\": 3", "model.n_head 3 does not divide");

  ModelConfig other = mixers_alone();
  other.norm_epsilon = 1e-6;
  EXPECT_THROW(export_huggingface(*make_model(other, 3), root_ / "other"), Error);
}

TEST_F(RecurrentExport, AnInfiniteTimeStepLimitIsAcceptedInEverySpelling) {
  const auto model = make_model(mixers_alone(), 3);
  for (const char* limit : {"[0.0, Infinity]", "[0.0, {\"__float__\": \"Infinity\"}]", "null"}) {
    export_huggingface(*model, directory_);
    change_config("\"use_bias\": false", "\"time_step_limit\": " + std::string(limit) + ", \"use_bias\": false");
    EXPECT_EQ(import_huggingface(directory_)->config(), model->config()) << limit;
    fs::remove_all(directory_);
  }
}

}  // namespace
}  // namespace longhaul
