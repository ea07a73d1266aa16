// The pure Transformer arm: RMSNorm, RoPE, SwiGLU, optional grouped-query attention, no biases (Touvron et al. 2023).
#pragma once

#include "core/models/decoder_model.h"
#include "core/nn/linear.h"
#include "core/nn/norm.h"

namespace longhaul {

/// Parameters have the names of transformers' LlamaForCausalLM, except that q, k, v stand in one matrix
/// (self_attn.qkv_proj) and gate, up in another (mlp.gate_up_proj): one product each. Every matrix starts as
/// N(0, initializer_range), gains at 1.
/// With rpa.prior the attention has the length-aware prior: model.layers.N.rpa.* (length_aware_layer.h).
class Transformer : public DecoderModel {
 public:
  Transformer(ModelConfig resolved_config, DType dtype);

 protected:
  Variable block(Tape& tape, int64_t layer, const Variable& x, const BlockRun& run) const override;
  Variable final_norm(Tape& tape, const Variable& x) const override { return final_norm_(tape, x); }
  std::vector<Variable> block_parameters(int64_t layer) const override;
  int64_t feed_forward_matrices() const override { return 3; }

 private:
  struct Block {
    RmsNorm attention_norm;
    Linear qkv, projection;
    RmsNorm feed_forward_norm;
    Linear gate_up, down;
  };
  Block make_block(int64_t layer);

  std::vector<Block> blocks_;
  RmsNorm final_norm_;
};

}  // namespace longhaul
