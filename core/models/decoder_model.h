// What gpt2, fuzzy_transformer and transformer share: embedding, a stack of blocks of attention and feed-forward, a
// final norm, an output matrix. A family supplies its layers; this class runs them for training, with recomputation,
// and for decoding.
#pragma once

#include <functional>

#include "core/models/language_model.h"
#include "core/models/length_aware_layer.h"
#include "core/ops/attention.h"
#include "core/ops/expert_gate.h"

namespace longhaul {

/// What a block does differently in training and in decoding.
struct BlockRun {
  /// [rows, (Hq + 2 Hkv) D] -> [rows, Hq D].
  std::function<Variable(Tape&, const Variable& qkv)> attend;
  /// Dropout of a residual branch; branch 0: attention, 1: feed-forward. The identity outside training.
  std::function<Variable(Tape&, const Variable& x, int branch)> drop;
  /// Memberships of the block's tokens; empty for blocks without.
  LengthAwareRun length_aware;
  /// Experts of a mixture from the logits of their gate [rows, experts]; noisy in training.
  std::function<ops::ExpertChoice(Tape&, const Variable& logits)> choose_experts;
};

class DecoderModel : public LanguageModel {
 public:
  Variable hidden(ForwardContext& context) override;
  Variable output_weight() const override { return config_.tie_embeddings ? tokens_ : head_; }
  std::unique_ptr<DecodeState> make_decode_state(int64_t sequences, int64_t max_length) const override;
  Tensor decode(DecodeState& state, const std::vector<std::vector<int32_t>>& ids) const override;
  std::vector<LayerFlops> flops(int64_t context_length) const override;

 protected:
  DecoderModel(ModelConfig resolved_config, DType dtype);

  /// Registers the memberships of the next block, if the configuration has any; once per block.
  void add_length_aware_layer(const std::string& name);
  const LengthAwareLayer& length_aware_layer(int64_t layer) const { return length_aware_[static_cast<size_t>(layer)]; }

  virtual Variable block(Tape& tape, int64_t layer, const Variable& x, const BlockRun& run) const = 0;
  virtual Variable final_norm(Tape& tape, const Variable& x) const = 0;
  /// The parameters block(layer) uses.
  virtual std::vector<Variable> block_parameters(int64_t layer) const = 0;
  /// Matrix columns of the feed-forward layer's products per d_model: 2 d_ff (up, down) or 3 d_ff (gate, up, down).
  virtual int64_t feed_forward_matrices() const = 0;

  int64_t head_size() const { return config_.d_model / config_.n_head; }
  int64_t qkv_columns() const { return (config_.n_head + 2 * config_.n_kv_head) * head_size(); }
  ops::AttentionOptions attention_options() const;

  Variable tokens_;     ///< [vocabulary, d_model]
  Variable positions_;  ///< [context, d_model]; undefined without learned positions
  Variable head_;       ///< [vocabulary, d_model]; undefined when tied
  Tensor rope_table_;   ///< undefined without RoPE

 private:
  ops::ExpertChoice choose_experts(Tape& tape, const Variable& logits, const Batch& batch, bool noisy,
                                   kernels::RandomKey key) const;

  std::vector<LengthAwareLayer> length_aware_;  ///< by block; without memberships where the family has none
};

}  // namespace longhaul
