// What the trainer, evaluation, generation and export know of a model.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/control/entropy_gate.h"
#include "core/control/prior_memory.h"
#include "core/models/gate_work.h"
#include "core/models/model_config.h"
#include "core/nn/forward_context.h"
#include "core/nn/parameter_store.h"

namespace longhaul {

/// Sums over the valid targets of one slot. The trainer divides by the valid tokens of the whole global batch.
struct LossSums {
  Variable objective;        ///< one element: sum of what is trained (smoothing, z-loss included); differentiable
  double cross_entropy = 0;  ///< sum of unsmoothed cross-entropy
  int64_t valid_targets = 0;
  int64_t correct = 0;  ///< valid targets the model holds for the most probable token
};

/// Floating-point operations of one layer kind for one token at context length T, forward pass. Backward counts twice.
struct LayerFlops {
  std::string layer;         ///< "attention projections", "attention scores", "feed-forward", "head", ...
  double per_token = 0;      ///< multiply and add count as two
  bool has_backward = true;  ///< false: nothing is differentiated (the entropy gates)
};

/// Adds the entries of `more` to those of the same name in `sum`, others at its end.
void add_flops(std::vector<LayerFlops>& sum, const std::vector<LayerFlops>& more);

/// Keys and values (and later recurrent states) of the tokens seen so far by a batch of sequences, each with its own
/// length.
class DecodeState {
 public:
  virtual ~DecodeState() = default;
  virtual int64_t sequences() const = 0;
  virtual int64_t length(int64_t sequence) const = 0;  ///< tokens seen since the start or the last clear()
  virtual void clear(int64_t sequence) = 0;            ///< forget one sequence
  /// Of every gated block, all sequences together, cleared ones included; empty for models without gates.
  virtual std::span<const GateWork> gate_work() const { return {}; }
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  const ModelConfig& config() const { return config_; }
  ParameterStore& parameters() { return parameters_; }
  const ParameterStore& parameters() const { return parameters_; }

  /// Hidden states [B * T, d_model] after the final norm.
  virtual Variable hidden(ForwardContext& context) = 0;
  /// The [vocabulary, d_model] output matrix (tied or not).
  virtual Variable output_weight() const = 0;
  /// hidden + fused linear cross-entropy over context.batch.targets.
  LossSums loss(ForwardContext& context);
  /// Logits [rows, vocabulary] of given hidden rows: evaluation dumps and generation.
  Tensor logits(const Tensor& hidden_rows, Tape::Mode mode = Tape::Mode::off) const;

  /// The entropy gates, by block; empty for models without. Their state belongs to the model as its parameters do.
  std::span<EntropyGate> gates() { return gates_; }
  std::span<const EntropyGate> gates() const { return gates_; }

  /// What the length-aware prior remembers; null for models without memberships. It belongs to the model as its
  /// parameters do.
  PriorMemory* prior_memory() { return prior_memory_.get(); }
  const PriorMemory* prior_memory() const { return prior_memory_.get(); }
  /// The mean over positions of the gate eta of the residual branches (models.md 7.6), by layer, as inference computes
  /// it at `length`; empty for models without.
  virtual std::vector<double> residual_gates(int64_t) const { return {}; }

  /// Incremental decoding of `sequences` sequences of at most `max_length` <= context_length tokens each.
  virtual std::unique_ptr<DecodeState> make_decode_state(int64_t sequences, int64_t max_length) const = 0;
  /// Appends ids[b] (any number, also none) to sequence b; returns logits [sequences, vocabulary] after its last token,
  /// rows of zeros for sequences that were given nothing. user_error for ids outside the vocabulary or a full state.
  virtual Tensor decode(DecodeState& state, const std::vector<std::vector<int32_t>>& ids) const = 0;

  /// Attention scores are counted causally: query t of a row reads t + 1 keys, (T + 1) / 2 on average.
  virtual std::vector<LayerFlops> flops(int64_t context_length) const = 0;

 protected:
  LanguageModel(ModelConfig config, DType dtype) : config_(std::move(config)), parameters_(dtype) {}
  /// prior_memory_ of so many layers with memberships, where the configuration has any.
  void make_prior_memory(int64_t layers);
  void check_row_length(int64_t tokens) const;    ///< of a batch: user_error beyond context_length
  void check_state_length(int64_t tokens) const;  ///< of a decode state: internal_error beyond context_length

  ModelConfig config_;
  ParameterStore parameters_;
  std::vector<EntropyGate> gates_;
  std::unique_ptr<PriorMemory> prior_memory_;
};

/// Builds the model `config.family` names, parameters laid out and initialised from `seed`. user_error for an
/// inconsistent configuration (heads not dividing d_model, ...), naming the key.
std::unique_ptr<LanguageModel> make_model(const ModelConfig& config, uint64_t seed, DType dtype = DType::f32);

/// Number of parameters of the model `config` describes, from shapes alone: no values are allocated.
int64_t count_parameters(const ModelConfig& config);

struct ParameterPart {
  std::string name;  ///< "embedding", "backbone", "attention blocks" (what AMOR adds to its backbone), "output matrix"
  int64_t parameters = 0;
};
/// The same by parts of the model, in forward order; parts without parameters are left out.
std::vector<ParameterPart> count_parameter_parts(const ModelConfig& config);

}  // namespace longhaul
