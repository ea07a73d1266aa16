// AMOR: a recurrent backbone whose next-token entropy decides where a few attention blocks run (models.md 6).
#pragma once

#include "core/models/amor_block.h"
#include "core/models/gate_router.h"
#include "core/models/language_model.h"
#include "core/models/length_aware_layer.h"
#include "core/models/mixers/mixer_stack.h"
#include "core/nn/norm.h"

namespace longhaul {

/// Parameters: embed.weight, layers.N.* (mixer_stack.h), norm_f.weight, amor_blocks.N.* (amor_block.h),
/// amor_pre_norms.N.weight (N >= 1), final_norm.weight, untied lm_head.weight. Dropout acts in the backbone only. With
/// rpa.prior a block's attention has the prior that the block's input gives, all tokens of it, fired or not:
/// amor_blocks.N.rpa.* (length_aware_layer.h).
class AmorModel : public LanguageModel {
 public:
  AmorModel(ModelConfig resolved_config, DType dtype);

  /// The gates keep their state: with gate.update = before, a training pass compares with a state updated by this batch
  /// alone and hands it out in context.gates.
  Variable hidden(ForwardContext& context) override;
  Variable output_weight() const override { return config_.tie_embeddings ? tokens_ : head_; }
  std::unique_ptr<DecodeState> make_decode_state(int64_t sequences, int64_t max_length) const override;
  Tensor decode(DecodeState& state, const std::vector<std::vector<int32_t>>& ids) const override;
  std::vector<LayerFlops> flops(int64_t context_length) const override;

  /// From now on the gates are decided by these routers, one per block, outside training; empty: exactly again.
  /// internal_error for another number or width.
  void set_routers(std::vector<GateRouter> routers);

 private:
  /// Block 0 of mode classic reads and adds to the normed stream; the norm has been applied to it before.
  bool is_prenormed(int64_t block) const { return block == 0 && config_.gate.mode == "classic"; }
  Variable block_input(Tape& tape, int64_t block, const Variable& h) const;
  std::vector<Variable> block_parameters(int64_t block) const;
  /// The normalised entropies of u [rows, d_model], f32 [rows].
  Tensor exact_entropies(const Tensor& u, Tape::Mode mode) const;
  /// The same, or what the block's router predicts.
  Tensor inference_entropies(int64_t block, const Tensor& u, Tape::Mode mode) const;
  /// The rows that fire in a forward pass over a batch.
  Tensor decide(ForwardContext& context, int64_t block, const Tensor& u) const;
  Variable run_block(ForwardContext& context, int64_t block, const Variable& h,
                     const std::shared_ptr<const Batch>& batch) const;

  Variable tokens_;  ///< [vocabulary, d_model]
  std::unique_ptr<MixerStack> stack_;
  RmsNorm backbone_norm_;           ///< norm_f
  std::vector<RmsNorm> pre_norms_;  ///< by block; that of block 0 is norm_f
  std::vector<AmorBlock> blocks_;
  std::vector<LengthAwareLayer> length_aware_;  ///< by block; without memberships when there is no prior
  RmsNorm final_norm_;
  Variable head_;  ///< [vocabulary, d_model]; undefined when tied
  std::vector<GateRouter> routers_;
};

/// i32: the indices of the entropies (f32) strictly above the threshold, ascending.
Tensor fired_rows(const Tensor& entropies, float threshold);

}  // namespace longhaul
