// The gate of a mixture of experts: which experts a token goes to, and with what weight (models.md 7.7).
#pragma once

#include "core/autograd/tape.h"
#include "core/tensor/batch.h"
#include "kernels/expert_gate.h"

namespace longhaul::ops {

struct ExpertChoice {
  Variable weights;  ///< [tokens, k], adding to 1 per token, the largest first
  Tensor experts;    ///< i32 [tokens, k], all different
};

/// The gate.chosen largest of y = (logits + noise) / temperature per token, of equal ones the lower index, weighted by
/// their softmax; logits [B * T, gate.experts]. gate.noisy adds Gumbel noise that depends on (gate.key, global sample,
/// position in the row, expert) alone, as the mask of dropout does. Gradients reach the logits of the chosen experts.
/// internal_error "expert_gate: ..." with the shape, or for a gate that cannot be.
ExpertChoice expert_gate(Tape& tape, const Variable& logits, const kernels::ExpertGate& gate, const Batch& batch);

}  // namespace longhaul::ops
