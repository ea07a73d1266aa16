// One entropy-gated attention block of AMOR (models.md 6): the projections, and the update of the rows that fire. Who
// fires is decided outside (amor_model.h).
#pragma once

#include <string>
#include <vector>

#include "core/models/amor_state.h"
#include "core/models/model_config.h"
#include "core/nn/linear.h"
#include "core/tensor/batch.h"

namespace longhaul {

/// Parameters under `name`: q_proj.weight, kv_proj.weight (key rows, then value rows), out_proj.weight (zero at start,
/// so that the block begins as the identity), raw_alpha [d_model] (0 at start, not decayed).
class AmorBlock {
 public:
  /// rope_table: make_rope_table() in the dtype of the activations, one for all blocks.
  AmorBlock(ParameterStore& store, const std::string& name, const ModelConfig& config, const Tensor& rope_table);

  /// h + g alpha W_o attention(u); u and h [B * T, d_model], fired i32 [count], ascending. Keys and values of all rows;
  /// queries, attention and W_o of the fired rows only, or with gate.attention = dense of all rows, equal to rounding.
  /// A null prior is none.
  Variable forward(Tape& tape, const Variable& h, const Variable& u, const Tensor& fired, const Batch& batch,
                   const ops::LengthPrior* prior) const;
  std::vector<Variable> parameters() const { return {q_.weight(), kv_.weight(), out_.weight(), raw_alpha_}; }

  std::unique_ptr<GatedAttentionState> make_state(int64_t sequences, int64_t max_length,
                                                  const ops::PriorFactors& prior) const;
  /// The same for the new tokens `rows`; always compacted. Adds to `work` all but the count of scored tokens.
  Tensor decode(GatedAttentionState& state, const Tensor& h, const Tensor& u, const Tensor& fired,
                const DecodeRows& rows, GateWork& work) const;

  /// Per token, when `rate` of the tokens fire.
  std::vector<LayerFlops> flops(int64_t context_length, double rate) const;

 private:
  bool dense_;
  ops::AttentionOptions options_;
  Linear q_, kv_, out_;
  Variable raw_alpha_;
};

}  // namespace longhaul
