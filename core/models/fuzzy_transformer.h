// The Fuzzy Transformer (models.md 7): GPT-2's block with the length-aware prior in its attention, both residual
// branches gated by memberships, and a mixture of experts that memberships choose from.
#pragma once

#include "core/models/decoder_model.h"
#include "core/nn/linear.h"
#include "core/nn/norm.h"

namespace longhaul {

/// Parameters and their start as Gpt2, with fuzzy.h.N in place of transformer.h.N, and in every block:
/// rpa.* (length_aware_layer.h), gamma.weight [n_head, R], eta.weight [R], and for several experts
/// mlp.gate.weight [experts, R] and mlp.experts.E.{c_fc,c_proj}. With rpa.prior off they are there all the same. gamma
/// scales the outputs of the heads, before c_proj.
class FuzzyTransformer : public DecoderModel {
 public:
  FuzzyTransformer(ModelConfig resolved_config, DType dtype);

  std::vector<double> residual_gates(int64_t length) const override;

 protected:
  Variable block(Tape& tape, int64_t layer, const Variable& x, const BlockRun& run) const override;
  Variable final_norm(Tape& tape, const Variable& x) const override { return final_norm_(tape, x); }
  std::vector<Variable> block_parameters(int64_t layer) const override;
  int64_t feed_forward_matrices() const override;

 private:
  struct FeedForward {
    Linear up, down;
    Variable operator()(Tape& tape, const Variable& x) const;
  };
  struct Block {
    LayerNorm attention_norm;
    Linear qkv, projection;
    Variable gamma, eta;
    LayerNorm feed_forward_norm;
    Variable expert_gate;  ///< undefined with one expert
    std::vector<FeedForward> experts;
  };
  Block make_block(int64_t layer);
  FeedForward make_feed_forward(const std::string& name);
  Variable feed_forward(Tape& tape, const Block& block, const Variable& x, const BlockRun& run) const;

  std::vector<Block> blocks_;
  LayerNorm final_norm_;
};

}  // namespace longhaul
