// config.json of Hugging Face directories, both ways.
#include <nlohmann/json.hpp>

#include "launch/interop/huggingface.h"
#include "launch/interop/json_config.h"
#include "launch/interop/native_config.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

Json gpt2_config(const ModelConfig& config) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", config.vocab_size},
          {"n_positions", config.context_length},
          {"n_ctx", config.context_length},
          {"n_embd", config.d_model},
          {"n_layer", config.n_layer},
          {"n_head", config.n_head},
          {"n_inner", config.d_ff},
          {"activation_function", "gelu_new"},
          {"resid_pdrop", config.dropout},
          {"embd_pdrop", config.dropout},
          {"attn_pdrop", 0.0},
          {"layer_norm_epsilon", config.norm_epsilon}};
}

Json llama_config(const ModelConfig& config) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", config.vocab_size},
          {"max_position_embeddings", config.context_length},
          {"hidden_size", config.d_model},
          {"num_hidden_layers", config.n_layer},
          {"num_attention_heads", config.n_head},
          {"num_key_value_heads", config.n_kv_head},
          {"head_dim", config.d_model / config.n_head},
          {"intermediate_size", config.d_ff},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"mlp_bias", false},
          {"rms_norm_eps", config.norm_epsilon},
          {"rope_theta", config.rope_base},  // read by transformers 4, the next by 5
          {"rope_parameters", {{"rope_theta", config.rope_base}, {"rope_type", "default"}}}};
}

/// The norm inside the mixer; transformers has one epsilon for all norms.
constexpr double kMamba2Epsilon = 1e-5;

Json mamba2_config(const ModelConfig& config) {
  if (config.norm_epsilon != kMamba2Epsilon) {
    throw user_error(
        "model.norm_epsilon is {}; Mamba2ForCausalLM has one epsilon for all norms and the mixer's is 1e-05: export of "
        "family mamba2 without feed-forward layers needs model.norm_epsilon = 1e-05",
        config.norm_epsilon);
  }
  const int64_t inner = config.expand * config.d_model;
  return {{"architectures", {"Mamba2ForCausalLM"}},
          {"model_type", "mamba2"},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.d_model},
          {"num_hidden_layers", config.n_layer},
          {"state_size", config.state_size},
          {"head_dim", config.mixer_head_size},
          {"num_heads", inner / config.mixer_head_size},
          {"expand", config.expand},
          {"conv_kernel", config.convolution_width},
          {"n_groups", 1},
          {"use_bias", false},
          {"use_conv_bias", true},
          {"hidden_act", "silu"},
          {"layer_norm_epsilon", config.norm_epsilon},
          {"residual_in_fp32", true},
          {"rescale_prenorm_residual", false},
          {"chunk_size", 256},
          {"max_position_embeddings", config.context_length},  // ours: transformers has no limit
          {"pad_token_id", nullptr}};
}

/// time_step_limit: absent or (0, infinity).
void check_time_step_limit(const JsonConfig& json) {
  const Json* limit = json.find("time_step_limit");
  if (!limit) return;
  const Json tagged = {{"__float__", "Infinity"}};  // how transformers 5 writes it
  const bool good = limit->is_array() && limit->size() == 2 && (*limit)[0] == 0.0 &&
                    ((*limit)[1] == "Infinity" || (*limit)[1] == tagged);
  if (!good) throw json.wrong("time_step_limit", *limit, "[0.0, Infinity]");
}

ModelConfig read_gpt2(const JsonConfig& json) {
  json.require_text("activation_function", {"gelu_new", "gelu_pytorch_tanh"}, "gelu_new");
  json.require("scale_attn_weights", true);
  json.require("scale_attn_by_inverse_layer_idx", false);
  json.require("add_cross_attention", false);
  ModelConfig config;
  config.family = "gpt2";
  config.vocab_size = json.integer("vocab_size", 50257);
  config.context_length = json.integer("n_positions", 1024);
  config.d_model = json.integer("n_embd", 768);
  config.n_layer = json.integer("n_layer", 12);
  config.n_head = json.integer("n_head", 12);
  config.d_ff = json.integer("n_inner", 0);
  config.norm_epsilon = json.number("layer_norm_epsilon", 1e-5);
  config.tie_embeddings = json.boolean("tie_word_embeddings", true);
  return config;
}

ModelConfig read_llama(const JsonConfig& json) {
  json.require_text("hidden_act", {"silu"}, "silu");
  json.require("attention_bias", false);
  json.require("mlp_bias", false);
  ModelConfig config;
  config.family = "transformer";
  config.vocab_size = json.integer("vocab_size", 32000);
  config.context_length = json.integer("max_position_embeddings", 2048);
  config.d_model = json.integer("hidden_size", 4096);
  config.n_layer = json.integer("num_hidden_layers", 32);
  config.n_head = json.integer("num_attention_heads", 32);
  config.n_kv_head = json.integer("num_key_value_heads", 0);
  config.d_ff = json.integer("intermediate_size", 11008);
  config.norm_epsilon = json.number("rms_norm_eps", 1e-6);
  config.rope_base = json.rope_base();
  config.tie_embeddings = json.boolean("tie_word_embeddings", false);
  const int64_t head_size = config.n_head > 0 ? config.d_model / config.n_head : 0;
  const int64_t found = json.integer("head_dim", head_size);
  if (found != head_size) throw json.wrong("head_dim", found, std::to_string(head_size) + " (hidden_size / heads)");
  return config;
}

ModelConfig read_mamba2(const JsonConfig& json) {
  json.require_text("hidden_act", {"silu"}, "silu");
  json.require("use_bias", false);
  json.require("use_conv_bias", true);
  json.require_integer("n_groups", 1, 8);
  json.require_number("layer_norm_epsilon", kMamba2Epsilon, kMamba2Epsilon);
  check_time_step_limit(json);
  ModelConfig config;
  config.family = "mamba2";
  config.feed_forward = false;
  config.initializer_range = 0.1;  // the default there
  config.vocab_size = json.integer("vocab_size", 32768);
  config.context_length = json.integer("max_position_embeddings", config.context_length);
  config.d_model = json.integer("hidden_size", 4096);
  config.n_layer = json.integer("num_hidden_layers", 64);
  config.state_size = json.integer("state_size", 128);
  config.mixer_head_size = json.integer("head_dim", 64);
  config.expand = json.integer("expand", 2);
  config.convolution_width = json.integer("conv_kernel", 4);
  config.norm_epsilon = kMamba2Epsilon;
  config.tie_embeddings = json.boolean("tie_word_embeddings", false);
  if (config.mixer_head_size > 0) {
    const int64_t heads = config.expand * config.d_model / config.mixer_head_size;
    json.require_integer("num_heads", heads, 128);
  }
  return config;
}

/// A kind of config.json: model_type and its two directions.
struct ConfigKind {
  const char* model_type;
  bool (*describes)(const ModelConfig&);
  Json (*write)(const ModelConfig&);
  ModelConfig (*read)(const JsonConfig&);
};

/// The first kind that describes a configuration is the one it is exported as.
constexpr ConfigKind kKinds[] = {
    {"gpt2", [](const ModelConfig& config) { return config.family == "gpt2"; }, gpt2_config, read_gpt2},
    {"llama", [](const ModelConfig& config) { return config.family == "transformer" && !config.has_memberships(); },
     llama_config, read_llama},
    {"mamba2", [](const ModelConfig& config) { return config.family == "mamba2" && !config.feed_forward; },
     mamba2_config, read_mamba2},
    {kNativeModelType, [](const ModelConfig&) { return true; }, native_config, read_native_config}};

}  // namespace

std::string huggingface_config_text(const ModelConfig& given, int64_t eos_token_id) {
  const ModelConfig config = resolved(given);
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const ConfigKind& k) { return k.describes(config); });
  Json json = kind->write(config);
  json["initializer_range"] = config.initializer_range;
  json["tie_word_embeddings"] = config.tie_embeddings;
  const Json token = eos_token_id >= 0 ? Json(eos_token_id) : Json();
  json["bos_token_id"] = token;
  json["eos_token_id"] = token;
  json["torch_dtype"] = "float32";
  json["use_cache"] = true;
  return json.dump(2) + "\n";
}

ModelConfig read_huggingface_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  if (!std::filesystem::exists(path)) {
    throw user_error("{}: no config.json; expected a Hugging Face model directory", directory.string());
  }
  const JsonConfig json(path);
  const std::string type = json.text("model_type", "");
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const ConfigKind& k) { return type == k.model_type; });
  if (kind == std::end(kKinds)) {
    throw user_error("{}: model_type is '{}'; expected gpt2, llama, mamba2 or longhaul", path.string(), type);
  }
  ModelConfig config = kind->read(json);
  config.initializer_range = json.number("initializer_range", config.initializer_range);
  try {
    return resolved(config);
  } catch (const Error& error) {
    throw error.within(path.string());
  }
}

}  // namespace longhaul
