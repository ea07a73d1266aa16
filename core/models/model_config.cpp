#include "core/models/model_config.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "kernels/error.h"
#include "kernels/memberships.h"

namespace longhaul {
namespace {

constexpr int64_t kLargestExtent = std::numeric_limits<int32_t>::max();  // ids and positions are 32-bit
constexpr int64_t kDeltaHeadWidth = 64;    // models.md 4: as many heads as 64 columns fill three quarters of d_model
constexpr int64_t kWidestConvolution = 8;  // of the convolution kernels

void check_extent(const char* key, int64_t value, int64_t least) {
  if (value < least || value > kLargestExtent) {
    throw user_error("model.{} is {}; expected {} to {}", key, value, least, kLargestExtent);
  }
}

void check_extents(const ModelConfig& config) {
  check_extent("vocab_size", config.vocab_size, 0);
  check_extent("context_length", config.context_length, 1);
  check_extent("n_layer", config.n_layer, 1);
  check_extent("d_model", config.d_model, 1);
  check_extent("n_head", config.n_head, 1);
  check_extent("n_kv_head", config.n_kv_head, 0);
  check_extent("d_ff", config.d_ff, 0);
  if (config.loss_chunk_bytes < 1) {
    throw user_error("model.loss_chunk_bytes is {}; expected at least 1", config.loss_chunk_bytes);
  }
}

/// value in [least, limit); NaN is outside.
void check_fraction(const char* key, double value, double limit) {
  if (!(value >= 0 && value < limit)) throw user_error("model.{} is {}; expected 0 <= {} < {}", key, value, key, limit);
}

void check_reals(const ModelConfig& config) {
  check_fraction("dropout", config.dropout, 1);
  check_fraction("label_smoothing", config.label_smoothing, 1);
  check_fraction("norm_epsilon", config.norm_epsilon, 1);
  for (const auto& [key, value] :
       {std::pair{"z_loss", config.z_loss}, std::pair{"initializer_range", config.initializer_range}}) {
    if (!(value >= 0) || !std::isfinite(value))
      throw user_error("model.{} is {}; expected a finite value >= 0", key, value);
  }
  if (!(config.rope_base > 1) || !std::isfinite(config.rope_base)) {
    throw user_error("model.rope_base is {}; expected a finite value > 1", config.rope_base);
  }
}

void check_choice(const char* key, const std::string& value, std::initializer_list<const char*> choices) {
  std::string expected;
  for (const char* choice : choices) {
    if (value == choice) return;
    expected += (expected.empty() ? "" : ", ") + std::string(choice);
  }
  throw user_error("{} is '{}'; expected one of {}", key, value, expected);
}

void check_heads(const ModelConfig& config) {
  if (config.d_model % config.n_head != 0) {
    throw user_error("model.n_head {} does not divide model.d_model {}; choose a divisor", config.n_head,
                     config.d_model);
  }
  if (config.n_head % config.n_kv_head != 0) {
    throw user_error("model.n_kv_head {} does not divide model.n_head {}; choose a divisor", config.n_kv_head,
                     config.n_head);
  }
  if (config.is_gpt2_like() && config.n_kv_head != config.n_head) {
    throw user_error(
        "model.n_kv_head is {}; family {} has no grouped-query attention: leave it 0 or use another family",
        config.n_kv_head, config.family);
  }
  if (!config.is_gpt2_like() && config.d_model / config.n_head % 2 != 0) {
    throw user_error(
        "model.n_head {} gives heads of odd size {}; rotary positions pair their halves: make d_model / n_head even",
        config.n_head, config.d_model / config.n_head);
  }
}

void check_mamba2(const ModelConfig& config) {
  check_extent("expand", config.expand, 1);
  check_extent("mixer_head_size", config.mixer_head_size, 1);
  check_extent("state_size", config.state_size, 1);
  const int64_t inner = config.family == "fused" ? config.d_model : config.expand * config.d_model;
  if (inner % config.mixer_head_size != 0) {
    throw user_error("model.mixer_head_size {} does not divide Mamba2's inner width {}; choose a divisor",
                     config.mixer_head_size, inner);
  }
}

void complete_delta(ModelConfig& config) {
  check_extent("delta_heads", config.delta_heads, 0);
  check_extent("delta_key_size", config.delta_key_size, 1);
  check_extent("delta_value_size", config.delta_value_size, 1);
  const int64_t d_model = config.d_model, heads = config.delta_heads;
  if (config.family == "fused") {  // as wide as the attention beside it
    if (d_model % config.delta_value_size != 0 || (heads != 0 && heads * config.delta_value_size != d_model)) {
      throw user_error(
          "model.delta_value_size {} (delta_heads {}) does not fill model.d_model {} beside the attention heads; "
          "choose a divisor and leave delta_heads 0",
          config.delta_value_size, heads, d_model);
    }
    config.delta_heads = d_model / config.delta_value_size;
  } else if (heads == 0) {
    if (3 * d_model % (4 * kDeltaHeadWidth) != 0) {
      throw user_error("model.delta_heads is 0, but 3/4 of model.d_model {} is no multiple of {}; set delta_heads",
                       d_model, kDeltaHeadWidth);
    }
    config.delta_heads = 3 * d_model / (4 * kDeltaHeadWidth);
  }
}

void check_gate(const GateConfig& gate) {
  if (gate.blocks < 1) throw user_error("gate.blocks is {}; expected at least 1", gate.blocks);
  check_choice("gate.mode", gate.mode, {"classic", "h"});
  check_choice("gate.threshold", gate.threshold, {"adaptive", "fixed"});
  check_choice("gate.update", gate.update, {"after", "before"});
  check_choice("gate.attention", gate.attention, {"compacted", "dense"});
  check_choice("gate.product", gate.product, {"f32", "int16"});
  if (!std::isfinite(gate.kappa)) throw user_error("gate.kappa is {}; expected a finite value", gate.kappa);
  if (!std::isfinite(gate.margin)) throw user_error("gate.margin is {}; expected a finite value", gate.margin);
  for (const auto& [key, value] : {std::pair{"momentum", gate.momentum}, std::pair{"initial_mean", gate.initial_mean},
                                   std::pair{"initial_deviation", gate.initial_deviation}}) {
    if (!(value >= 0 && value <= 1)) throw user_error("gate.{} is {}; expected 0 <= {} <= 1", key, value, key);
  }
}

void check_rpa_share(const char* key, double value, double least, double most) {
  if (!(value >= least && value <= most)) {
    throw user_error("rpa.{} is {}; expected {} to {}", key, value, least, most);
  }
}

void complete_rpa(ModelConfig& config) {
  RpaConfig& rpa = config.rpa;
  check_choice("rpa.prior", rpa.prior, {"auto", "on", "off"});
  if (rpa.prior == "auto") rpa.prior = config.family == "fuzzy_transformer" ? "on" : "off";
  if (!config.has_memberships()) return;
  if (config.family == "gpt2" || !config.has_attention()) {
    throw user_error("rpa.prior is on, but family {} has no attention that takes a prior; use another family or off",
                     config.family);
  }
  if (config.family == "serial" && config.n_layer < config.attention_every) {
    throw user_error("rpa.prior is on, but no layer has attention: model.attention_every {} is beyond model.n_layer {}",
                     config.attention_every, config.n_layer);
  }
  if (rpa.regimes < 1 || rpa.regimes > kernels::kMaxRegimes) {
    throw user_error("rpa.regimes is {}; expected 1 to {}", rpa.regimes, kernels::kMaxRegimes);
  }
  if (rpa.align_iterations < 1) throw user_error("rpa.align_iterations is {}; expected >= 1", rpa.align_iterations);
  if (rpa.warm_steps < 0) throw user_error("rpa.warm_steps is {}; expected >= 0", rpa.warm_steps);
  check_rpa_share("least_temperature", rpa.least_temperature, 1e-6, 1e6);
  check_rpa_share("most_temperature", rpa.most_temperature, rpa.least_temperature, 1e6);
  check_choice("rpa.temperature_divides", rpa.temperature_divides, {"prior", "scores"});
  check_rpa_share("mix", rpa.mix, 0, 1);
  check_rpa_share("pos_beta", rpa.pos_beta, 0, 1e6);
  check_rpa_share("align_temperature", rpa.align_temperature, 1e-6, 1e6);
  check_rpa_share("temperature", rpa.temperature, 1e-6, 1e6);
  check_rpa_share("clip", rpa.clip, 0, 1e6);
  check_rpa_share("memory_momentum", rpa.memory_momentum, 0, 1);
  check_rpa_share("entropy_share", rpa.entropy_share, 0, 1);
  check_rpa_share("entropy_weight", rpa.entropy_weight, 0, 1e6);
}

void complete_experts(ModelConfig& config) {
  check_extent("moe_experts", config.moe_experts, 1);
  check_extent("moe_chosen", config.moe_chosen, 1);
  if (config.moe_experts == 1) return;
  if (config.family != "fuzzy_transformer") {
    throw user_error("model.moe_experts is {}, but family {} has no mixture of experts; leave it 1", config.moe_experts,
                     config.family);
  }
  if (config.moe_chosen > config.moe_experts) {
    throw user_error("model.moe_chosen is {}, but there are {} experts (model.moe_experts)", config.moe_chosen,
                     config.moe_experts);
  }
  if (!(config.moe_temperature > 0) || !std::isfinite(config.moe_temperature)) {
    throw user_error("model.moe_temperature is {}; expected a finite value > 0", config.moe_temperature);
  }
}

/// What the recurrent families have beside the Transformer's settings.
void complete_recurrence(ModelConfig& config) {
  check_extent("attention_every", config.attention_every, 1);
  check_extent("convolution_width", config.convolution_width, 1);
  if (config.convolution_width > kWidestConvolution) {
    throw user_error("model.convolution_width is {}; expected 1 to {}", config.convolution_width, kWidestConvolution);
  }
  if (config.has_recurrence("mamba2")) check_mamba2(config);
  if (config.has_recurrence("gdn")) complete_delta(config);
  if (config.family == "amor") check_gate(config.gate);
}

}  // namespace

bool ModelConfig::has_recurrence(const std::string& name) const {
  return family == name || (mixer == name && (family == "serial" || family == "fused" || family == "amor"));
}

ModelConfig resolved(ModelConfig config) {
  check_choice("model.family", config.family,
               {"gpt2", "transformer", "fuzzy_transformer", "mamba2", "gdn", "serial", "fused", "amor"});
  check_choice("model.mixer", config.mixer, {"mamba2", "gdn"});
  const bool gpt2 = config.is_gpt2_like();
  check_extents(config);
  check_reals(config);
  if (config.n_kv_head == 0) config.n_kv_head = config.n_head;
  const bool published_mamba2 = config.family == "mamba2" && !config.feed_forward;  // one epsilon, the mixer's
  if (config.norm_epsilon == 0) config.norm_epsilon = gpt2 || published_mamba2 ? 1e-5 : 1e-6;
  if (config.d_ff == 0) config.d_ff = gpt2 ? 4 * config.d_model : (8 * config.d_model + 3 * 64 - 1) / (3 * 64) * 64;
  if (config.has_attention()) check_heads(config);
  complete_recurrence(config);
  complete_rpa(config);
  complete_experts(config);
  return config;
}

}  // namespace longhaul
