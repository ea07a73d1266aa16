// What the memberships of tokens decide beside the prior: the gates gamma of the attention output and eta of the
// residual branches (models.md 7.6), the floor of their entropy, and how far they have collapsed.
#pragma once

#include <array>
#include <vector>

#include "core/autograd/tape.h"
#include "core/tensor/batch.h"
#include "kernels/document_gate.h"
#include "kernels/memberships.h"

namespace longhaul::ops {

/// x * sigmoid(weight . memberships[t]) per token; x [tokens, d], memberships [tokens, R], weight [R] (may be bf16 with
/// f32 x). internal_error "scale_rows_by_gate: ..." with both shapes.
Variable scale_rows_by_gate(Tape& tape, const Variable& x, const Variable& memberships, const Variable& weight);

/// The documents of a batch, each gated by its own memberships.
std::vector<kernels::GatedDocument> gated_documents(const Batch& batch);
/// All `tokens` tokens gated by one pool of `pool` memberships.
std::vector<kernels::GatedDocument> gated_by_one_pool(int64_t tokens, int64_t pool);

/// x times the mean over heads of sigmoid(weight_h . m), m the mean of the memberships of the token's document
/// (models.md 7.6: gamma); x [tokens, d], memberships [pool, R], weight [H, R] (may be bf16 with f32 x). internal_error
/// "scale_documents_by_gate: ..." with both shapes.
Variable scale_documents_by_gate(Tape& tape, const Variable& x, const Variable& memberships, const Variable& weight,
                                 std::vector<kernels::GatedDocument> documents);

/// f64 [1]: sum over tokens with targets >= 0 of relu(share * log(R) - H(memberships[t])), H the entropy in nats, added
/// in double in token order. memberships [tokens, R], targets i32 of `tokens` elements. At the floor itself the
/// gradient is zero. internal_error "membership_entropy_floor: ..." with both shapes, or for a share outside [0, 1].
Variable membership_entropy_floor(Tape& tape, const Variable& memberships, const Tensor& targets, double share);

/// Sums over tokens, so that slots and ranks can be added.
struct MembershipStatistics {
  int64_t regimes = 0;
  int64_t tokens = 0;
  int64_t saturated = 0;                            ///< tokens with a membership above 0.9
  double entropy = 0;                               ///< in nats
  std::array<double, kernels::kMaxRegimes> sums{};  ///< of the memberships in each regime

  void add(const MembershipStatistics& other);  ///< internal_error when the regimes differ
  double saturation() const;                    ///< fraction of tokens that are saturated
  double relative_entropy() const;              ///< mean entropy over its maximum log(R), in [0, 1]; 1 for one regime
  /// Largest mean membership of a regime: 1/R when the regimes are used alike, 1 when one has taken all tokens.
  double collapse() const;
};

/// Over tokens with targets >= 0, in token order; memberships [tokens, R], R <= kMaxRegimes. Without tokens the
/// fractions are 0. internal_error "membership_statistics: ..." with both shapes.
MembershipStatistics membership_statistics(const Tensor& memberships, const Tensor& targets);

}  // namespace longhaul::ops
