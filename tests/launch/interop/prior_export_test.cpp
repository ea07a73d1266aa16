// Export and import of models with memberships: what the length-aware prior remembers goes with the weights.
#include <gtest/gtest.h>

#include "core/io/file.h"
#include "launch/interop/huggingface.h"
#include "tests/core/error_check.h"
#include "tests/core/io/temporary_directory.h"
#include "tests/core/models/model_testing.h"

namespace longhaul {
namespace {

ModelConfig tiny(const std::string& family) {
  ModelConfig config = testing::tiny_config(family == "fuzzy_transformer" ? "fuzzy_moe" : "rpa");
  config.context_length = 8;
  config.rpa.mix = 0.25;
  return config;
}

/// A model that has trained at lengths 3 and 8, as far as its prior shows.
std::unique_ptr<LanguageModel> trained(const std::string& family) {
  std::unique_ptr<LanguageModel> model = make_model(tiny(family), 5);
  PriorMemory& memory = *model->prior_memory();
  for (const int64_t length : {3, 8, 3}) {
    const Tensor memberships = Tensor::empty({2, length, 3}, DType::f64),
                 alignment = Tensor::empty({2, 3, 3}, DType::f64);
    for (const Tensor& tensor : {memberships, alignment}) {
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<double>()[i] = 1.0 / static_cast<double>(3 + i + length);
    }
    memory.observe(length, memberships, alignment);
  }
  memory.set_control({.temperature = 0.1 + 0.7, .warm = 0.75, .lambda_saturation = 0.5});
  return model;
}

TEST(PriorExport, KeepsTheMemoryToTheBit) {
  for (const char* family : {"fuzzy_transformer", "transformer"}) {
    testing::TemporaryDirectory directory;
    const std::unique_ptr<LanguageModel> model = trained(family);
    export_huggingface(*model, directory.path() / "out");
    const std::unique_ptr<LanguageModel> again = import_huggingface(directory.path() / "out");
    EXPECT_EQ(again->config(), model->config()) << family;
    const PriorMemory &found = *again->prior_memory(), &expected = *model->prior_memory();
    EXPECT_EQ(found.control().temperature, expected.control().temperature);
    EXPECT_EQ(found.control().warm, 0.75);
    EXPECT_EQ(found.control().lambda_saturation, 0);  // of training alone
    ASSERT_EQ(found.entries().size(), 2u) << family;
    for (const auto& [length, entry] : expected.entries()) {
      EXPECT_EQ(found.entries().at(length).updates, entry.updates);
      EXPECT_EQ(found.entries().at(length).memberships.to_vector<double>(), entry.memberships.to_vector<double>());
      EXPECT_EQ(found.entries().at(length).alignment.to_vector<double>(), entry.alignment.to_vector<double>());
    }
    EXPECT_NE(read_file(directory.path() / "out/config.json").find("\"model_type\": \"longhaul\""), std::string::npos);
  }
}

TEST(PriorExport, AnUntrainedMemoryIsEmptyAgain) {
  testing::TemporaryDirectory directory;
  export_huggingface(*make_model(tiny("fuzzy_transformer"), 5), directory.path() / "out");
  EXPECT_TRUE(import_huggingface(directory.path() / "out")->prior_memory()->entries().empty());
}

TEST(PriorExport, WhatIsMissingOrMisshapenIsNamed) {
  const auto complaint = [](const std::function<void(std::vector<NamedTensor>&)>& change,
                            std::initializer_list<const char*> pieces) {
    testing::TemporaryDirectory directory;
    export_huggingface(*trained("fuzzy_transformer"), directory.path() / "out");
    const std::filesystem::path file = directory.path() / "out/model.safetensors";
    std::vector<NamedTensor> tensors;
    {
      const SafetensorsFile stored = SafetensorsFile::open(file);
      for (const auto& [name, entry] : stored.entries()) tensors.push_back({name, stored.read(name)});
    }
    change(tensors);
    std::filesystem::remove(file);
    write_safetensors(file, tensors, {});
    testing::expect_error(Fault::kUser, pieces, [&] { import_huggingface(directory.path() / "out"); });
  };
  const auto rename = [](const std::string& from, const std::string& to) {
    return [=](std::vector<NamedTensor>& tensors) {
      for (NamedTensor& entry : tensors) entry.name = entry.name == from ? to : entry.name;
    };
  };
  complaint(rename("prior.warm", "prior.cold"), {"prior.warm", "missing"});
  complaint(rename("prior.alignment.3", "prior.alignment.4"), {"prior.alignment.3", "missing"});
  complaint(rename("prior.memberships.8", "prior.memberships.7"), {"prior.memberships.7", "[2, 8, 3]", "[2, 7, 3]"});
  complaint(rename("prior.memberships.8", "prior.memberships.9"), {"belongs to no parameter"});
}

}  // namespace
}  // namespace longhaul
