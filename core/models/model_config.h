// The typed configuration of a model: section [model] of a configuration file. launch/config binds each field to its
// key.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

struct ModelConfig {
  std::string family = "transformer";  ///< gpt2 | transformer
  int64_t vocab_size = 0;              ///< 0: taken from the tokenizer of the data
  int64_t context_length = 1024;       ///< longest row; size of learned position tables
  int64_t n_layer = 12;
  int64_t d_model = 768;
  int64_t n_head = 12;
  int64_t n_kv_head = 0;  ///< 0: n_head (no grouped-query attention); transformer only
  int64_t d_ff = 0;       ///< 0: 4 d_model (gpt2), 8/3 d_model rounded up to 64 (transformer)
  double dropout = 0.0;   ///< on the embedding and both residual branches
  double rope_base = 10000.0;
  double norm_epsilon = 0.0;  ///< 0: 1e-5 (gpt2), 1e-6 (transformer)
  double initializer_range = 0.02;
  bool tie_embeddings = true;
  bool recompute = false;  ///< activation recomputation per block
  double label_smoothing = 0.0;
  double z_loss = 0.0;
  int64_t loss_chunk_bytes = 48ll << 20;  ///< upper bound of the logits buffer of the fused head

  bool operator==(const ModelConfig&) const = default;
};

/// The configuration with every 0 replaced by what it stands for. user_error, naming the key, for impossible sizes.
ModelConfig resolved(ModelConfig config);

}  // namespace longhaul
