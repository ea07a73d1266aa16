// The recurrent families and the fixed-schedule hybrids (models.md 3 to 5): mamba2, gdn, serial, fused. Embedding, a
// stack of mixers, a final norm, an output matrix.
#pragma once

#include "core/models/language_model.h"
#include "core/models/mixers/mixer_stack.h"

namespace longhaul {

/// Parameters: embed.weight, layers.N.*, norm_f.weight, untied lm_head.weight. Matrices start as N(0,
/// initializer_range).
class HybridModel : public LanguageModel {
 public:
  HybridModel(ModelConfig resolved_config, DType dtype);

  Variable hidden(ForwardContext& context) override;
  Variable output_weight() const override { return config_.tie_embeddings ? tokens_ : head_; }
  std::unique_ptr<DecodeState> make_decode_state(int64_t sequences, int64_t max_length) const override;
  Tensor decode(DecodeState& state, const std::vector<std::vector<int32_t>>& ids) const override;
  std::vector<LayerFlops> flops(int64_t context_length) const override;

 private:
  Variable tokens_;  ///< [vocabulary, d_model]
  std::unique_ptr<MixerStack> stack_;
  RmsNorm final_norm_;
  Variable head_;  ///< [vocabulary, d_model]; undefined when tied
};

}  // namespace longhaul
