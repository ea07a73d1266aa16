// The typed configuration of a model: section [model] of a configuration file. launch/config binds each field to its
// key.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

/// The entropy-gated attention of AMOR (models.md 6): section [gate] of a configuration file.
struct GateConfig {
  int64_t blocks = 3;                  ///< K, attention blocks after the backbone
  std::string mode = "classic";        ///< classic | h: what block 0 reads and adds to
  std::string threshold = "adaptive";  ///< adaptive: mu + kappa s; fixed: mu + margin
  double kappa = 0.2;
  double margin = 0.03;
  double momentum = 0.99;  ///< m of the running median mu and deviation s
  double initial_mean = 0.3;
  double initial_deviation = 0.1;
  std::string update = "after";         ///< after: once per optimizer step; before: the reference code's order
  std::string attention = "compacted";  ///< compacted: only fired queries are computed; dense: all, then masked
  std::string product = "f32";          ///< precision of the gate's products with the output matrix

  bool operator==(const GateConfig&) const = default;
};

/// The length-aware prior of attention and what else follows from memberships in regimes (models.md 7): section [rpa]
/// of a configuration file. For every family with attention but gpt2; fuzzy_transformer has memberships always.
struct RpaConfig {
  std::string prior = "auto";      ///< on | off; auto: on for fuzzy_transformer
  int64_t regimes = 4;             ///< R, and as many functions of the basis
  double mix = 0.1;                ///< m: weight of the distance penalty
  double pos_beta = 0.2;           ///< slope of the distance penalty at the start
  double align_temperature = 0.7;  ///< tau_align
  int64_t align_iterations = 6;    ///< of Sinkhorn
  bool detach = true;              ///< no gradient through the alignment
  double temperature = 0.68;       ///< tau_att at the start
  double least_temperature = 0.6;  ///< that divides, whatever the controllers say
  double most_temperature = 1.6;
  std::string temperature_divides = "prior";  ///< prior; scores: q . k / sqrt(D) in its place
  double clip = 4;                            ///< of the standardised prior divided by the temperature
  int64_t warm_steps = 1200;                  ///< over which the prior fades in
  double memory_momentum = 0.99;              ///< of the running means that inference uses
  double entropy_share = 0.5;                 ///< memberships of less than this share of log R are penalised
  double entropy_weight = 0.02;               ///< of that penalty
  bool operator==(const RpaConfig&) const = default;
};

struct ModelConfig {
  /// gpt2 | transformer | fuzzy_transformer | mamba2 | gdn | serial | fused | amor
  std::string family = "transformer";
  std::string mixer = "mamba2";   ///< mamba2 | gdn: the recurrence of serial, fused and amor
  int64_t vocab_size = 0;         ///< 0: taken from the tokenizer of the data
  int64_t context_length = 1024;  ///< longest row; size of learned position tables
  int64_t n_layer = 12;
  int64_t d_model = 768;
  int64_t n_head = 12;
  int64_t n_kv_head = 0;  ///< 0: n_head (no grouped-query attention); not gpt2, fuzzy_transformer
  int64_t d_ff = 0;       ///< 0: 4 d_model (gpt2, fuzzy_transformer), 8/3 d_model rounded up to 64 (others)
  double dropout = 0.0;   ///< on the embedding and both residual branches
  double rope_base = 10000.0;
  double norm_epsilon = 0.0;  ///< 0: 1e-5 (gpt2, fuzzy_transformer, mamba2 without feed_forward), 1e-6 (others)
  double initializer_range = 0.02;
  bool tie_embeddings = true;
  bool feed_forward = true;      ///< every mixer is followed by SwiGLU (recurrent families); false: mixers alone
  int64_t attention_every = 4;   ///< serial: layers n, 2n, ... (counted from 1) are attention
  int64_t expand = 2;            ///< Mamba2: d_inner / d_model
  int64_t mixer_head_size = 64;  ///< Mamba2: P
  int64_t state_size = 128;      ///< Mamba2: N
  int64_t delta_heads = 0;       ///< Gated DeltaNet; 0: 0.75 d_model / 64 (fused: d_model / delta_value_size)
  int64_t delta_key_size = 64;
  int64_t delta_value_size = 128;
  int64_t convolution_width = 4;  ///< of both recurrences
  GateConfig gate;                ///< amor
  RpaConfig rpa;
  int64_t moe_experts = 1;       ///< fuzzy_transformer: feed-forward layers per block; 1: a dense one
  int64_t moe_chosen = 2;        ///< experts a token goes to
  double moe_temperature = 0.5;  ///< of the gate of the experts
  bool recompute = false;        ///< activation recomputation per block
  double label_smoothing = 0.0;
  double z_loss = 0.0;
  int64_t loss_chunk_bytes = 48ll << 20;  ///< upper bound of the logits buffer of the fused head

  /// Some layer is this recurrence, "mamba2" or "gdn".
  bool has_recurrence(const std::string& name) const;
  /// Some layer is attention.
  bool has_attention() const { return family != "mamba2" && family != "gdn"; }
  /// Learned positions, LayerNorm, GELU and biases.
  bool is_gpt2_like() const { return family == "gpt2" || family == "fuzzy_transformer"; }
  /// Attention has the length-aware prior; of a resolved configuration.
  bool has_prior() const { return rpa.prior == "on"; }
  /// Tokens have memberships in regimes; of a resolved configuration.
  bool has_memberships() const { return has_prior() || family == "fuzzy_transformer"; }

  bool operator==(const ModelConfig&) const = default;
};

/// The configuration with every 0 replaced by what it stands for. user_error, naming the key, for impossible sizes.
ModelConfig resolved(ModelConfig config);

}  // namespace longhaul
