#include "core/models/model_config.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr int64_t kLargestExtent = std::numeric_limits<int32_t>::max();  // ids and positions are 32-bit

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

void check_heads(const ModelConfig& config) {
  if (config.d_model % config.n_head != 0) {
    throw user_error("model.n_head {} does not divide model.d_model {}; choose a divisor", config.n_head,
                     config.d_model);
  }
  if (config.n_head % config.n_kv_head != 0) {
    throw user_error("model.n_kv_head {} does not divide model.n_head {}; choose a divisor", config.n_kv_head,
                     config.n_head);
  }
  if (config.family == "gpt2" && config.n_kv_head != config.n_head) {
    throw user_error(
        "model.n_kv_head is {}; family gpt2 has no grouped-query attention: leave it 0 or use family transformer",
        config.n_kv_head);
  }
  if (config.family == "transformer" && config.d_model / config.n_head % 2 != 0) {
    throw user_error(
        "model.n_head {} gives heads of odd size {}; rotary positions pair their halves: make d_model / n_head even",
        config.n_head, config.d_model / config.n_head);
  }
}

}  // namespace

ModelConfig resolved(ModelConfig config) {
  const bool gpt2 = config.family == "gpt2";
  if (!gpt2 && config.family != "transformer") {
    throw user_error("model.family is '{}'; expected gpt2 or transformer", config.family);
  }
  check_extents(config);
  check_reals(config);
  if (config.n_kv_head == 0) config.n_kv_head = config.n_head;
  if (config.norm_epsilon == 0) config.norm_epsilon = gpt2 ? 1e-5 : 1e-6;
  if (config.d_ff == 0) config.d_ff = gpt2 ? 4 * config.d_model : (8 * config.d_model + 3 * 64 - 1) / (3 * 64) * 64;
  check_heads(config);
  return config;
}

}  // namespace longhaul
