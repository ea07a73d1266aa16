#include "launch/interop/huggingface_names.h"

namespace longhaul {
namespace {

/// The four matrices that GPT2LMHeadModel keeps as Conv1D, [in, out].
bool is_conv1d(const std::string& name) {
  return name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") || name.ends_with(".c_fc.weight");
}

/// name with its module `fused` replaced by each of `modules`, one run of rows after another.
std::vector<HuggingFacePart> split(const std::string& name, const std::string& fused,
                                   const std::vector<std::pair<std::string, int64_t>>& modules) {
  std::vector<HuggingFacePart> parts;
  int64_t row = 0;
  for (const auto& [module, rows] : modules) {
    std::string part = name;
    part.replace(name.find(fused), fused.size(), module);
    parts.push_back({part, row, row + rows});
    row += rows;
  }
  return parts;
}

}  // namespace

std::vector<HuggingFacePart> huggingface_parts(const ModelConfig& config, const Parameter& parameter) {
  const std::string& name = parameter.name;
  const int64_t head_size = config.d_model / config.n_head;
  if (config.family == "transformer" && name.find("qkv_proj") != std::string::npos) {
    return split(name, "qkv_proj",
                 {{"q_proj", config.n_head * head_size},
                  {"k_proj", config.n_kv_head * head_size},
                  {"v_proj", config.n_kv_head * head_size}});
  }
  if (config.family == "transformer" && name.find("gate_up_proj") != std::string::npos) {
    return split(name, "gate_up_proj", {{"gate_proj", config.d_ff}, {"up_proj", config.d_ff}});
  }
  return {{name, 0, parameter.shape()[0], config.family == "gpt2" && is_conv1d(name)}};
}

bool is_huggingface_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace longhaul
