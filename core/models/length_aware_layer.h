// What one layer makes of the memberships of its input (models.md 7): the prior of its attention, and what its gates
// and the mixture of experts read. In training from the input itself; outside from the model's PriorMemory alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/control/prior_memory.h"
#include "core/models/language_model.h"
#include "core/nn/forward_context.h"
#include "core/nn/linear.h"
#include "core/ops/length_prior.h"
#include "core/ops/membership_gates.h"

namespace longhaul {

/// Of one forward pass.
struct LengthAwareRun {
  Variable memberships;                           ///< [tokens, R]; undefined for a layer without any
  Variable pool;                                  ///< what gamma is made of: `memberships`, or [T, R] outside training
  std::vector<kernels::GatedDocument> documents;  ///< tokens and their part of the pool
  std::optional<ops::LengthPrior> prior;

  const ops::LengthPrior* prior_or_null() const { return prior ? &*prior : nullptr; }
  /// What a recomputed function that uses the run must name: its parameters, and what it reads of the run.
  std::vector<Variable> inputs(std::vector<Variable> parameters) const;
  /// The same values and targets of gradients, for a function that is kept and run again in the backward pass.
  LengthAwareRun kept() const;

  Variable scale_documents(Tape& tape, const Variable& x, const Variable& weight) const {
    return ops::scale_documents_by_gate(tape, x, pool, weight, documents);
  }
};

/// One layer's share of what a decode state keeps from its first token to its last.
struct FrozenLayer {
  Tensor memberships;         ///< [T, R]; undefined for a layer without any
  ops::PriorFactors factors;  ///< of rank 0 without a prior that has begun
};

class LengthAwareLayer {
 public:
  /// No memberships: run() gives an empty run.
  LengthAwareLayer() = default;
  /// Registers name.{projection.weight [d, d], projection.bias, centres [R, d], log_sigma [R], pos_beta [1]}. `index`
  /// counts the layers with memberships, in forward order. `memory` lives as long as the layer; null: no memberships.
  LengthAwareLayer(ParameterStore& store, const std::string& name, const ModelConfig& config, int64_t index,
                   const PriorMemory* memory);

  bool has_memberships() const { return memory_ != nullptr; }

  /// For the layer's input x [B * T, d]. In training it records the layer in context.priors, and adds the floor of the
  /// memberships' entropy to context.penalty.
  LengthAwareRun run(ForwardContext& context, const Variable& x) const;

  /// Of training, per token: "memberships". In evaluation there are none to compute.
  std::vector<LayerFlops> flops() const;

  /// For decoding tokens at positions below max_length (PriorMemory::decoding_length).
  FrozenLayer freeze(int64_t max_length, DType dtype) const;

 private:
  /// False as long as the warm-in makes it add zeros, unless it also divides the scores.
  bool prior_has_begun() const;
  ops::LengthPrior frozen_prior(int64_t length, DType dtype) const;
  Tensor frozen_memberships(int64_t length, DType dtype) const { return memory_->memberships(index_, length, dtype); }
  LengthAwareRun training_run(ForwardContext& context, const Variable& x) const;
  Variable memberships(ForwardContext& context, const Variable& x) const;
  void penalise(ForwardContext& context, const Variable& memberships) const;

  RpaConfig rpa_;
  bool recompute_ = false;
  bool has_prior_ = false;
  int64_t index_ = 0;
  const PriorMemory* memory_ = nullptr;
  Linear projection_;
  Variable centres_, log_sigma_, pos_beta_;
};

/// The prior of length T as inference uses it, of layer `index` of those with memberships.
ops::LengthPrior frozen_prior(const PriorMemory& memory, const RpaConfig& config, int64_t index,
                              const Variable& pos_beta, int64_t length, DType dtype);
/// The slopes pos_beta of a model's layers with memberships, by their index; the store is finalised.
std::vector<Variable> prior_slopes(const ParameterStore& store);

/// A run, without a prior, of tokens at `positions` (i32) of rows with frozen memberships [T, R].
LengthAwareRun frozen_run(const Tensor& memberships, const Tensor& positions);

}  // namespace longhaul
