// Hugging Face model directories: config.json + model.safetensors, as GPT2LMHeadModel (gpt2) and LlamaForCausalLM
// (transformer) name and lay out their tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/io/safetensors.h"
#include "core/models/language_model.h"

namespace longhaul {

/// The parameters under Hugging Face names: GPT-2 matrices transposed to [in, out] (Conv1D), fused Llama-style matrices
/// split into q_proj, k_proj, v_proj, gate_proj, up_proj. Views of the model's memory where nothing has to be
/// transposed.
std::vector<NamedTensor> huggingface_tensors(const LanguageModel& model);

/// The same names and layouts for the gradients bound at the moment.
std::vector<NamedTensor> huggingface_gradients(const LanguageModel& model);

/// config.json text of `config` (resolved). eos_token_id -1: none recorded. user_error when the family cannot express
/// the configuration.
std::string huggingface_config_text(const ModelConfig& config, int64_t eos_token_id = -1);

/// Writes config.json, generation_config.json and model.safetensors into `directory`, which must be absent or empty.
void export_huggingface(const LanguageModel& model, const std::filesystem::path& directory, int64_t eos_token_id = -1);

/// The model configuration config.json describes. user_error naming file and key for architectures and options that the
/// families cannot compute (other activations, RoPE scaling, biases, ...).
ModelConfig read_huggingface_config(const std::filesystem::path& directory);

/// The model of a directory: config.json, then model.safetensors or the shards of model.safetensors.index.json. Values
/// are converted to `dtype`. user_error for missing, unexpected or misshapen tensors.
std::unique_ptr<LanguageModel> import_huggingface(const std::filesystem::path& directory, DType dtype = DType::f32);

}  // namespace longhaul
