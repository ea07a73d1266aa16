// GPT-2 (Radford et al. 2019): learned positions, pre-LayerNorm, biases, GELU (tanh form), feed-forward of 4 d_model.
#pragma once

#include "core/models/decoder_model.h"
#include "core/nn/linear.h"
#include "core/nn/norm.h"

namespace longhaul {

/// Parameters have the names of transformers' GPT2LMHeadModel; matrices are [out, in]. Initialisation: N(0,
/// initializer_range) for every matrix and both embeddings, the two projections into the residual stream scaled by
/// 1 / sqrt(2 n_layer), biases 0, gains 1.
class Gpt2 : public DecoderModel {
 public:
  Gpt2(ModelConfig resolved_config, DType dtype);

 protected:
  Variable block(Tape& tape, int64_t layer, const Variable& x, const BlockRun& run) const override;
  Variable final_norm(Tape& tape, const Variable& x) const override { return final_norm_(tape, x); }
  std::vector<Variable> block_parameters(int64_t layer) const override;
  int64_t feed_forward_matrices() const override { return 2; }

 private:
  struct Block {
    LayerNorm attention_norm;
    Linear qkv, projection;
    LayerNorm feed_forward_norm;
    Linear up, down;
  };
  Block make_block(int64_t layer);

  std::vector<Block> blocks_;
  LayerNorm final_norm_;
};

}  // namespace longhaul
