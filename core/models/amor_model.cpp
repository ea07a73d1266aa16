#include "core/models/amor_model.h"

#include <memory>

#include "core/models/rope_table.h"
#include "core/ops/dropout.h"
#include "core/ops/embedding.h"
#include "core/ops/linear_entropy.h"

namespace longhaul {
namespace {

/// Share of tokens that fires, where work is counted without running the model: the published rate.
constexpr double kNominalFireRate = 0.22;

}  // namespace

Tensor fired_rows(const Tensor& entropies, float threshold) {
  std::vector<int32_t> rows;
  const std::span<const float> values = entropies.span<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > threshold) rows.push_back(static_cast<int32_t>(i));
  }
  return Tensor::from<int32_t>({static_cast<int64_t>(rows.size())}, rows);
}

AmorModel::AmorModel(ModelConfig resolved_config, DType dtype) : LanguageModel(std::move(resolved_config), dtype) {
  const Initialization normal = Initialization::normal(config_.initializer_range);
  const auto norm = [&](const std::string& name) {
    return RmsNorm(parameters_, name, config_.d_model, config_.norm_epsilon);
  };
  const DType computes = activation_dtype(dtype);
  tokens_ = parameters_.add("embed.weight", {config_.vocab_size, config_.d_model}, WeightDecay::yes, normal);
  make_prior_memory(config_.gate.blocks);
  stack_ = std::make_unique<MixerStack>(parameters_, config_, computes, nullptr);
  backbone_norm_ = norm("norm_f");
  const Tensor rope_table = make_rope_table(config_, computes);
  const GateConfig& gate = config_.gate;
  for (int64_t block = 0; block < gate.blocks; ++block) {
    const std::string name = "amor_blocks." + std::to_string(block);
    pre_norms_.push_back(block == 0 ? backbone_norm_ : norm("amor_pre_norms." + std::to_string(block)));
    length_aware_.emplace_back(parameters_, name + ".rpa", config_, block, prior_memory_.get());
    blocks_.emplace_back(parameters_, name, config_, rope_table);
    gates_.emplace_back(EntropyGate::Options{.adaptive = gate.threshold == "adaptive",
                                             .kappa = gate.kappa,
                                             .margin = gate.margin,
                                             .momentum = gate.momentum},
                        EntropyGate::State{gate.initial_mean, gate.initial_deviation});
  }
  final_norm_ = norm("final_norm");
  if (!config_.tie_embeddings) {
    head_ = parameters_.add("lm_head.weight", {config_.vocab_size, config_.d_model}, WeightDecay::yes, normal);
  }
}

Variable AmorModel::block_input(Tape& tape, int64_t block, const Variable& h) const {
  return is_prenormed(block) ? h : pre_norms_[static_cast<size_t>(block)](tape, h);
}

std::vector<Variable> AmorModel::block_parameters(int64_t block) const {
  std::vector<Variable> parameters = blocks_[static_cast<size_t>(block)].parameters();
  if (is_prenormed(block)) return parameters;
  for (const Variable& gain : pre_norms_[static_cast<size_t>(block)].parameters()) parameters.push_back(gain);
  return parameters;
}

void AmorModel::set_routers(std::vector<GateRouter> routers) {
  if (!routers.empty() && routers.size() != blocks_.size()) {
    throw internal_error("{} routers for {} gates", routers.size(), blocks_.size());
  }
  for (const GateRouter& router : routers) {
    if (router.d_model() != config_.d_model) {
      throw internal_error("router of {} channels for a model of {}", router.d_model(), config_.d_model);
    }
  }
  routers_ = std::move(routers);
}

Tensor AmorModel::exact_entropies(const Tensor& u, Tape::Mode mode) const {
  return ops::linear_entropy(u, output_weight().value(), config_.gate.product, mode);
}

Tensor AmorModel::inference_entropies(int64_t block, const Tensor& u, Tape::Mode mode) const {
  return routers_.empty() ? exact_entropies(u, mode) : routers_[static_cast<size_t>(block)].predict(u.to(DType::f32));
}

Tensor AmorModel::decide(ForwardContext& context, int64_t block, const Tensor& u) const {
  EntropyGate gate = gates_[static_cast<size_t>(block)];
  const Tensor values =
      context.training ? exact_entropies(u, Tape::Mode::off) : inference_entropies(block, u, Tape::Mode::off);
  if (context.training && config_.gate.update == "before") {
    const std::vector<std::vector<float>> batch_values{valid_entropies(values, context.batch.targets)};
    gate.update(summarize_entropies(*make_single_communicator(), batch_values).front());
  }
  if (context.gates != nullptr) {
    context.gates->blocks[static_cast<size_t>(block)] = {.inputs = context.gates->keep_inputs ? u : Tensor(),
                                                         .entropies = values,
                                                         .threshold = gate.threshold(),
                                                         .next = gate.state()};
  }
  return fired_rows(values, gate.threshold());
}

Variable AmorModel::run_block(ForwardContext& context, int64_t block, const Variable& h,
                              const std::shared_ptr<const Batch>& batch) const {
  const LengthAwareLayer& layer = length_aware_[static_cast<size_t>(block)];
  // Memberships take their part in the gradient of the block's input; the decision of the gate does not.
  Tape unrecorded(Tape::Mode::off);
  const Variable u = layer.has_memberships() ? block_input(context.tape, block, h)
                                             : block_input(unrecorded, block, Variable(h.value()));
  const Tensor fired = decide(context, block, u.value());
  const LengthAwareRun length_aware = layer.run(context, u);
  const auto forward = [this, block, fired, batch, aware = length_aware.kept()](Tape& tape, const Variable& input) {
    return blocks_[static_cast<size_t>(block)].forward(tape, input, block_input(tape, block, input), fired, *batch,
                                                       aware.prior_or_null());
  };
  return config_.recompute ? recompute(context.tape, h, length_aware.inputs(block_parameters(block)), forward)
                           : forward(context.tape, h);
}

Variable AmorModel::hidden(ForwardContext& context) {
  check_row_length(context.batch.length());
  if (context.gates != nullptr) context.gates->blocks.assign(blocks_.size(), {});
  // Recomputation runs blocks again in the backward pass, so what they need is held by value, not through `context`:
  // the batch, and who fired.
  const auto batch = std::make_shared<const Batch>(context.batch);
  Variable h = ops::embedding(context.tape, *batch, tokens_);
  h = ops::dropout(context.tape, h, context.training ? config_.dropout : 0, context.random_key(0), *batch);
  h = stack_->forward(context, h);
  if (is_prenormed(0)) h = backbone_norm_(context.tape, h);
  for (int64_t block = 0; block < config_.gate.blocks; ++block) {
    h = run_block(context, block, h, batch);
  }
  return final_norm_(context.tape, h);
}

std::unique_ptr<DecodeState> AmorModel::make_decode_state(int64_t sequences, int64_t max_length) const {
  check_state_length(max_length);
  auto states = std::make_unique<AmorState>(sequences, max_length, config_.gate.blocks);
  stack_->append_states(*states, sequences, max_length);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    const FrozenLayer frozen = length_aware_[block].freeze(max_length, activation_dtype(parameters_.dtype()));
    states->append(blocks_[block].make_state(sequences, max_length, frozen.factors));
  }
  return states;
}

Tensor AmorModel::decode(DecodeState& state, const std::vector<std::vector<int32_t>>& ids) const {
  auto& states = dynamic_cast<AmorState&>(state);
  const PackedTokens packed = pack_tokens(states, ids, states.max_length());
  const DecodeRows& rows = packed.rows;
  if (rows.runs.empty()) {
    return Tensor::zeros({states.sequences(), config_.vocab_size}, activation_dtype(parameters_.dtype()));
  }
  Tape tape(Tape::Mode::decode);
  Tensor h = stack_->decode(states, ops::embedding(tape, packed.batch, tokens_).value(), rows);
  if (is_prenormed(0)) h = backbone_norm_(tape, Variable(h)).value();
  for (int64_t block = 0; block < config_.gate.blocks; ++block) {
    const Tensor u = block_input(tape, block, Variable(h)).value();
    const Tensor fired =
        fired_rows(inference_entropies(block, u, tape.mode()), gates_[static_cast<size_t>(block)].threshold());
    GateWork& work = states.work(block);
    if (routers_.empty()) work.scored += u.size(0);
    auto& memory = dynamic_cast<GatedAttentionState&>(states.state(config_.n_layer + block));
    h = blocks_[static_cast<size_t>(block)].decode(memory, h, u, fired, rows, work);
  }
  states.advance(rows);
  const Tensor last = final_norm_(tape, Variable(last_rows(h, rows))).value();
  return spread_to_sequences(logits(last, tape.mode()), rows, states.sequences());
}

std::vector<LayerFlops> AmorModel::flops(int64_t context_length) const {
  std::vector<LayerFlops> sum = stack_->flops(context_length);
  const double head = 2 * static_cast<double>(config_.d_model) * static_cast<double>(config_.vocab_size);
  const double rate = config_.gate.attention == "dense" ? 1 : kNominalFireRate;
  for (const AmorBlock& block : blocks_) add_flops(sum, block.flops(context_length, rate));
  for (const LengthAwareLayer& layer : length_aware_) add_flops(sum, layer.flops());
  sum.push_back({"gates", static_cast<double>(config_.gate.blocks) * head, false});
  sum.push_back({"head", head});
  return sum;
}

}  // namespace longhaul
