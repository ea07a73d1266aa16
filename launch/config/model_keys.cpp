// The sections that describe a model: [model], [gate], [rpa].
#include "kernels/memberships.h"
#include "launch/config/key_makers.h"

namespace longhaul {
namespace {

constexpr int64_t kMostTaps = 8;  // of the convolution kernels

std::vector<ConfigKey> model_keys() {
  constexpr auto S = &Configuration::model;
  using M = ModelConfig;
  return {
      choice<S, &M::family>("family",
                            {"gpt2", "transformer", "fuzzy_transformer", "mamba2", "gdn", "serial", "fused", "amor"},
                            "gpt2: learned positions, LayerNorm, GELU; fuzzy_transformer: as gpt2, with [rpa]; "
                            "transformer: RoPE, RMSNorm, SwiGLU; mamba2, gdn "
                            "(Gated DeltaNet): recurrence and SwiGLU; serial: attention in every attention_every-th "
                            "layer; fused: attention beside the recurrence; amor: entropy-gated attention after it"),
      choice<S, &M::mixer>("mixer", {"mamba2", "gdn"}, "the recurrence of serial, fused and amor"),
      integer<S, &M::vocab_size>("vocab_size", 0, "0: that of the data's tokenizer; larger values leave unused ids"),
      integer<S, &M::context_length>("context_length", 1, "longest row in tokens; size of learned position tables"),
      integer<S, &M::n_layer>("n_layer", 1, "blocks"),
      integer<S, &M::d_model>("d_model", 1, "width of the residual stream"),
      integer<S, &M::n_head>("n_head", 1, "attention heads; must divide d_model where there is attention"),
      integer<S, &M::n_kv_head>("n_kv_head", 0, "key and value heads (grouped queries); 0: n_head"),
      integer<S, &M::d_ff>("d_ff", 0,
                           "width of the feed-forward layer; 0: 4 d_model (gpt2, fuzzy_transformer), 8/3 d_model "
                           "rounded up to 64 (others)"),
      number<S, &M::dropout>("dropout", {0, 0.99}, "on the embedding and both residual branches, in training"),
      number<S, &M::rope_base>("rope_base", {1, kMostNumber}, "base of the rotary angles"),
      number<S, &M::norm_epsilon>("norm_epsilon", {0, 1},
                                  "0: 1e-5 (gpt2, fuzzy_transformer, mamba2 without feed_forward), 1e-6 (others)"),
      number<S, &M::initializer_range>("initializer_range", {0, 10}, "standard deviation of the initial weights"),
      boolean<S, &M::tie_embeddings>("tie_embeddings", "the output matrix is the token embedding"),
      boolean<S, &M::feed_forward>("feed_forward", "recurrent families: a SwiGLU layer after every mixer"),
      integer<S, &M::attention_every>("attention_every", 1, "serial: layers n, 2n, ... (from 1) are attention"),
      integer<S, &M::expand>("expand", 1, "Mamba2: inner width over d_model"),
      integer<S, &M::mixer_head_size>("mixer_head_size", 1, "Mamba2: size of a head"),
      integer<S, &M::state_size>("state_size", 1, "Mamba2: state per channel"),
      integer<S, &M::delta_heads>("delta_heads", 0,
                                  "Gated DeltaNet: heads; 0: 3/4 d_model / 64 (fused: d_model / delta_value_size)"),
      integer<S, &M::delta_key_size>("delta_key_size", 1, "Gated DeltaNet: size of a query or key"),
      integer<S, &M::delta_value_size>("delta_value_size", 1, "Gated DeltaNet: size of a value"),
      integer<S, &M::convolution_width>("convolution_width", 1, "taps of the causal convolutions of both recurrences",
                                        kMostTaps),
      boolean<S, &M::recompute>(
          "recompute", "keep only block inputs and compute activations again in backward: less memory, same bits"),
      number<S, &M::label_smoothing>(
          "label_smoothing", {0, 0.99},
          "weight of the uniform distribution in the target; reported losses are unsmoothed"),
      number<S, &M::z_loss>("z_loss", {0, kMostNumber}, "weight of log(Z)^2"),
      integer<S, &M::loss_chunk_bytes>("loss_chunk_bytes", 1, "upper bound of the logits buffer of the fused head"),
      integer<S, &M::moe_experts>("moe_experts", 1,
                                  "fuzzy_transformer: feed-forward layers of a block, chosen by memberships; 1: dense"),
      integer<S, &M::moe_chosen>("moe_chosen", 1, "experts that a token goes to"),
      number<S, &M::moe_temperature>("moe_temperature", {1e-6, kMostNumber},
                                     "of the experts' gate, which is noisy in training"),
  };
}

std::vector<ConfigKey> rpa_keys() {
  constexpr auto S = &ModelConfig::rpa;
  using R = RpaConfig;
  return {
      choice<S, &R::prior>("prior", {"auto", "on", "off"},
                           "attention has the length-aware prior; not gpt2; auto: on for fuzzy_transformer"),
      integer<S, &R::regimes>("regimes", 1, "regimes that tokens belong to, and functions of the basis",
                              kernels::kMaxRegimes),
      number<S, &R::mix>("mix", {0, 1}, "weight of the distance penalty against the alignment"),
      number<S, &R::pos_beta>("pos_beta", {0, 1e6}, "slope of the distance penalty at the start; it is trained"),
      number<S, &R::align_temperature>("align_temperature", {1e-6, 1e6}, "of the scores that Sinkhorn normalises"),
      integer<S, &R::align_iterations>("align_iterations", 1, "of Sinkhorn: rows, then columns", 1000),
      boolean<S, &R::detach>("detach", "no gradient goes through the alignment"),
      number<S, &R::temperature>("temperature", {1e-6, 1e6},
                                 "divides the prior; at the start, where [guardian] or [temperature] moves it"),
      number<S, &R::least_temperature>("least_temperature", {1e-6, 1e6},
                                       "a lower one, Guardian's too, has the effect of this one"),
      number<S, &R::most_temperature>("most_temperature", {1e-6, 1e6}, "and a higher one that of this one"),
      choice<S, &R::temperature_divides>("temperature_divides", {"prior", "scores"},
                                         "scores: the temperature divides the products of queries and keys instead"),
      number<S, &R::clip>("clip", {0, 1e6}, "largest absolute value of the prior before the warm-in"),
      integer<S, &R::warm_steps>("warm_steps", 0, "the prior fades in over so many steps"),
      number<S, &R::memory_momentum>("memory_momentum", {0, 1},
                                     "share of the old running means, which evaluation and generation use, kept by a "
                                     "step"),
      number<S, &R::entropy_share>("entropy_share", {0, 1},
                                   "memberships whose entropy is below this share of its maximum are penalised"),
      number<S, &R::entropy_weight>("entropy_weight", {0, 1e6},
                                    "of that penalty; times (1 + lambda_sat) / 2, lambda_sat from [guardian], else 0"),
  };
}

std::vector<ConfigKey> gate_keys() {
  constexpr auto S = &ModelConfig::gate;
  using G = GateConfig;
  return {
      integer<S, &G::blocks>("blocks", 1, "amor: attention blocks after the backbone"),
      choice<S, &G::mode>("mode", {"classic", "h"},
                          "classic: the first block reads and continues the normed stream; h: it norms for itself"),
      choice<S, &G::threshold>("threshold", {"adaptive", "fixed"},
                               "adaptive: running median + kappa x running deviation; fixed: median + margin"),
      number<S, &G::kappa>("kappa", {-100, 100}, "deviations above the median at which attention fires"),
      number<S, &G::margin>("margin", {-1, 1}, "of the fixed threshold"),
      number<S, &G::momentum>("momentum", {0, 1}, "share of the old statistics kept by an update"),
      number<S, &G::initial_mean>("initial_mean", {0, 1}, "running median at the start"),
      number<S, &G::initial_deviation>("initial_deviation", {0, 1}, "running deviation at the start"),
      choice<S, &G::update>("update", {"after", "before"},
                            "after: statistics of a global batch count from the next step on; before: from the same "
                            "forward pass on, with one slot only"),
      choice<S, &G::attention>("attention", {"compacted", "dense"},
                               "training: only fired queries are computed, or all and then masked; equal to rounding"),
      choice<S, &G::product>("product", {"f32", "int16"}, "precision of the gate's products with the output matrix"),
  };
}

}  // namespace

std::vector<ConfigKey> keys_of_the_model() {
  std::vector<ConfigKey> keys;
  for (auto part : {model_keys, gate_keys, rpa_keys}) {
    for (ConfigKey& key : part()) keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace longhaul
