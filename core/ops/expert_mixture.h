// A mixture of experts after its gate: the tokens of each expert, and the weighted outputs back at the tokens
// (models.md 7.7).
//
//   const auto [weights, experts] = expert_gate(tape, logits, gate, batch);
//   const ExpertRouting routing = route_to_experts(experts, gate.experts);
//   for each expert e: outputs[e] = feed_forward_e(gather_rows(tape, x, routing.tokens[e]));
//   y = mix_experts(tape, outputs, weights, routing);
#pragma once

#include <vector>

#include "core/ops/rows.h"

namespace longhaul::ops {

struct ExpertRouting {
  std::vector<Tensor> tokens;  ///< of each expert: i32 [count] in rising order, as gather_rows takes them; may be empty
  Tensor experts;              ///< i32 [tokens, k], as chosen
  Tensor rows;                 ///< i32 [tokens, k]: the choice's index among the tokens of its expert
};

/// experts i32 [tokens, k]. internal_error "route_to_experts: ..." naming the first expert outside [0, count).
ExpertRouting route_to_experts(const Tensor& experts, int64_t count);

/// y [tokens, d] = sum over j of weights[t, j] * the output of expert experts[t, j] for token t; outputs[e] [tokens of
/// e, d], weights [tokens, k]. Added in the order of j, so that a token's bits do not depend on what others chose; no
/// expert's output is copied. An expert without tokens gets an empty gradient. internal_error "mix_experts: ..." with
/// both shapes.
Variable mix_experts(Tape& tape, const std::vector<Variable>& outputs, const Variable& weights,
                     const ExpertRouting& routing);

}  // namespace longhaul::ops
