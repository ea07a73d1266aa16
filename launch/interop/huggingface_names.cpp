#include "launch/interop/huggingface_names.h"

#include <algorithm>
#include <optional>

namespace longhaul {
namespace {

/// "layers.{}.norm." to "ssd_layers.{}.norm.": {} stands for a number, what follows is kept.
struct Renaming {
  const char* ours;
  const char* theirs;
};

constexpr Renaming kMamba2[] = {
    {"embed.", "backbone.embeddings."}, {"layers.{}.", "backbone.layers.{}."}, {"norm_f.", "backbone.norm_f."}};
constexpr Renaming kMamba2Backbone[] = {{"layers.{}.norm.", "ssd_layers.{}.norm."},
                                        {"layers.{}.mixer.", "ssd_layers.{}.mixer."},
                                        {"layers.{}.mlp_norm.", "mlp_norms.{}."},
                                        {"layers.{}.mlp.", "mlps.{}."}};
constexpr Renaming kDeltaBackbone[] = {{"layers.{}.norm.", "layers.{}.norm_ssm."},
                                       {"layers.{}.mixer.", "layers.{}.gdn."},
                                       {"layers.{}.mlp_norm.", "layers.{}.norm_mlp."}};

/// A matrix of ours whose runs of rows are modules of their own there.
struct FusedModule {
  const char* ours;
  std::vector<std::pair<const char*, int64_t>> theirs;  ///< module and rows
};

bool has_pure_backbone(const ModelConfig& config) {
  return config.family == "mamba2" || config.family == "gdn" || config.family == "amor";
}

template <size_t Count>
std::vector<Renaming> list(const Renaming (&table)[Count]) {
  return {table, table + Count};
}

std::vector<Renaming> renamings(const ModelConfig& config) {
  if (!has_pure_backbone(config)) return {};
  if (config.has_recurrence("gdn")) return list(kDeltaBackbone);
  return config.family == "mamba2" && !config.feed_forward ? list(kMamba2) : list(kMamba2Backbone);
}

/// The modules that some families fuse. `rows`: of the parameter in question, which tells how many heads of Gated
/// DeltaNet it has (the fused hybrid has others than delta_heads).
std::vector<FusedModule> fused_modules(const ModelConfig& config, int64_t rows) {
  if (config.family == "gpt2") return {};
  const int64_t head_size = config.d_model / config.n_head;
  const int64_t queries = config.n_head * head_size, keys = config.n_kv_head * head_size;
  std::vector<FusedModule> modules = {
      {"qkv_proj", {{"q_proj", queries}, {"k_proj", keys}, {"v_proj", keys}}},
      {"kv_proj", {{"kv_proj.k_proj", keys}, {"kv_proj.v_proj", keys}}},
      {"gate_up_proj", {{"gate_proj", config.d_ff}, {"up_proj", config.d_ff}}},
  };
  if (!config.has_recurrence("gdn")) return modules;
  const int64_t key = config.delta_key_size, value = config.delta_value_size;
  const int64_t heads = rows / (2 * key + 2 * value + 2), convolved = rows / (2 * key + value);
  modules.push_back({"in_proj",
                     {{"q_proj", heads * key},
                      {"k_proj", heads * key},
                      {"v_proj", heads * value},
                      {"g_proj", heads * value},
                      {"b_proj", heads},
                      {"a_proj", heads}}});
  modules.push_back(
      {"conv1d", {{"q_conv1d", convolved * key}, {"k_conv1d", convolved * key}, {"v_conv1d", convolved * value}}});
  return modules;
}

/// `name` under the first renaming whose left side it begins with.
std::string renamed(const std::string& name, const std::vector<Renaming>& table) {
  for (const auto& [ours, theirs] : table) {
    const std::string from = ours, to = theirs;
    const size_t hole = from.find("{}");
    if (hole == std::string::npos) {
      if (name.starts_with(from)) return to + name.substr(from.size());
      continue;
    }
    const std::string before = from.substr(0, hole), after = from.substr(hole + 2);
    if (!name.starts_with(before)) continue;
    const size_t number_end = name.find('.', hole);
    if (number_end == std::string::npos || name.compare(number_end, after.size(), after) != 0) continue;
    const std::string number = name.substr(hole, number_end - hole);
    return std::string(to).replace(to.find("{}"), 2, number) + name.substr(number_end + after.size());
  }
  return name;
}

/// The four matrices that GPT2LMHeadModel keeps as Conv1D, [in, out], and depthwise convolutions.
TensorLayout layout_of(const ModelConfig& config, const std::string& name) {
  if (name.ends_with("conv1d.weight")) return TensorLayout::kDepthwise;
  const bool conv1d =
      name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") || name.ends_with(".c_fc.weight");
  return config.family == "gpt2" && conv1d ? TensorLayout::kTransposed : TensorLayout::kSame;
}

}  // namespace

std::vector<HuggingFacePart> huggingface_parts(const ModelConfig& config, const Parameter& parameter) {
  const std::string name = renamed(parameter.name, renamings(config));
  const TensorLayout layout = layout_of(config, parameter.name);
  for (const FusedModule& fused : fused_modules(config, parameter.shape()[0])) {
    const std::string module = "." + std::string(fused.ours) + ".";
    const size_t place = name.find(module);
    if (place == std::string::npos) continue;
    std::vector<HuggingFacePart> parts;
    int64_t row = 0;
    for (const auto& [theirs, rows] : fused.theirs) {
      std::string part = name;
      part.replace(place + 1, module.size() - 2, theirs);
      parts.push_back({part, row, row + rows, layout});
      row += rows;
    }
    return parts;
  }
  return {{name, 0, parameter.shape()[0], layout}};
}

bool is_huggingface_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace longhaul
