// config.json of Hugging Face directories, both ways.
#include <limits>
#include <nlohmann/json.hpp>

#include "launch/interop/huggingface.h"

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

/// Typed access to config.json whose errors name file and key. A null counts as absent, as in transformers.
class ConfigReader {
 public:
  ConfigReader(std::filesystem::path path) : path_(std::move(path)) {
    try {
      json_ = Json::parse(read_file(path_));
    } catch (const Json::exception&) {
      throw user_error("{}: not valid JSON; fetch or write it again", path_.string());
    }
    if (!json_.is_object()) throw user_error("{}: expected a JSON object", path_.string());
  }

  int64_t integer(const char* key, int64_t fallback) const {
    const Json* value = find(json_, key);
    if (!value) return fallback;
    if (!value->is_number_integer()) throw wrong(key, *value, "an integer");
    return value->get<int64_t>();
  }
  double number(const char* key, double fallback) const { return number(json_, key, fallback); }
  std::string text(const char* key, const std::string& fallback) const {
    const Json* value = find(json_, key);
    if (!value) return fallback;
    if (!value->is_string()) throw wrong(key, *value, "a string");
    return value->get<std::string>();
  }
  bool boolean(const char* key, bool fallback) const {
    const Json* value = find(json_, key);
    if (!value) return fallback;
    if (!value->is_boolean()) throw wrong(key, *value, "true or false");
    return value->get<bool>();
  }

  /// user_error unless `key` is absent (then the library's default, the supported value, holds) or as supported.
  void require(const char* key, bool supported) const {
    if (boolean(key, supported) != supported) throw wrong(key, json_[key], supported ? "true" : "false");
  }
  void require(const char* key, const std::vector<std::string>& supported, const std::string& fallback) const {
    const std::string found = text(key, fallback);
    for (const std::string& value : supported) {
      if (found == value) return;
    }
    throw wrong(key, json_[key], supported.front());
  }

  /// Base of the rotary angles, from the old key or from rope_parameters; scaled variants are refused.
  double rope_base() const {
    double base = number("rope_theta", 10000.0);
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      const Json* parameters = find(json_, key);
      if (!parameters) continue;
      if (!parameters->is_object()) throw wrong(key, *parameters, "an object");
      for (const char* type : {"rope_type", "type"}) {
        const Json* value = find(*parameters, type);
        if (value && *value != "default") throw wrong(key, *value, "rope_type default (no scaling)");
      }
      base = number(*parameters, "rope_theta", base);
    }
    return base;
  }

  Error wrong(const char* key, const Json& found, const std::string& expected) const {
    return user_error("{}: {} is {}; expected {}", path_.string(), key, found.dump(), expected);
  }

 private:
  static const Json* find(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  double number(const Json& object, const char* key, double fallback) const {
    const Json* value = find(object, key);
    if (!value) return fallback;
    if (!value->is_number()) throw wrong(key, *value, "a number");
    return value->get<double>();
  }

  std::filesystem::path path_;
  Json json_;
};

ModelConfig read_gpt2(const ConfigReader& json) {
  json.require("activation_function", {"gelu_new", "gelu_pytorch_tanh"}, "gelu_new");
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

ModelConfig read_llama(const ConfigReader& json) {
  json.require("hidden_act", {"silu"}, "silu");
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

}  // namespace

std::string huggingface_config_text(const ModelConfig& given, int64_t eos_token_id) {
  const ModelConfig config = resolved(given);
  Json json = config.family == "gpt2" ? gpt2_config(config) : llama_config(config);
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
  const ConfigReader json(path);
  const std::string type = json.text("model_type", "");
  ModelConfig config;
  if (type == "gpt2") {
    config = read_gpt2(json);
  } else if (type == "llama") {
    config = read_llama(json);
  } else {
    throw user_error("{}: model_type is '{}'; expected gpt2 or llama", path.string(), type);
  }
  config.initializer_range = json.number("initializer_range", 0.02);
  try {
    return resolved(config);
  } catch (const Error& error) {
    throw error.within(path.string());
  }
}

}  // namespace longhaul
