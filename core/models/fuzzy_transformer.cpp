#include "core/models/fuzzy_transformer.h"

#include <cmath>

#include "core/ops/activation.h"
#include "core/ops/add.h"
#include "core/ops/expert_mixture.h"
#include "core/ops/linear.h"

namespace longhaul {

FuzzyTransformer::FuzzyTransformer(ModelConfig resolved_config, DType dtype)
    : DecoderModel(std::move(resolved_config), dtype) {
  const Initialization normal = Initialization::normal(config_.initializer_range);
  tokens_ = parameters_.add("fuzzy.wte.weight", {config_.vocab_size, config_.d_model}, WeightDecay::yes, normal);
  positions_ = parameters_.add("fuzzy.wpe.weight", {config_.context_length, config_.d_model}, WeightDecay::yes, normal);
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) blocks_.push_back(make_block(layer));
  final_norm_ = LayerNorm(parameters_, "fuzzy.ln_f", config_.d_model, config_.norm_epsilon);
  if (!config_.tie_embeddings) {
    head_ = parameters_.add("lm_head.weight", {config_.vocab_size, config_.d_model}, WeightDecay::yes, normal);
  }
}

FuzzyTransformer::FeedForward FuzzyTransformer::make_feed_forward(const std::string& name) {
  const double deviation = config_.initializer_range;
  const double residual_deviation = deviation / std::sqrt(2.0 * static_cast<double>(config_.n_layer));
  return {Linear(parameters_, name + ".c_fc", config_.d_model, config_.d_ff, Linear::Bias::yes, deviation),
          Linear(parameters_, name + ".c_proj", config_.d_ff, config_.d_model, Linear::Bias::yes, residual_deviation)};
}

FuzzyTransformer::Block FuzzyTransformer::make_block(int64_t layer) {
  const std::string name = "fuzzy.h." + std::to_string(layer);
  const int64_t width = config_.d_model, regimes = config_.rpa.regimes;
  const double deviation = config_.initializer_range;
  const double residual_deviation = deviation / std::sqrt(2.0 * static_cast<double>(config_.n_layer));
  const Initialization normal = Initialization::normal(deviation);
  Block block;
  add_length_aware_layer(name + ".rpa");
  block.attention_norm = LayerNorm(parameters_, name + ".ln_1", width, config_.norm_epsilon);
  block.qkv = Linear(parameters_, name + ".attn.c_attn", width, qkv_columns(), Linear::Bias::yes, deviation);
  block.projection = Linear(parameters_, name + ".attn.c_proj", width, width, Linear::Bias::yes, residual_deviation);
  block.gamma = parameters_.add(name + ".gamma.weight", {config_.n_head, regimes}, WeightDecay::no, normal);
  block.eta = parameters_.add(name + ".eta.weight", {regimes}, WeightDecay::no, normal);
  block.feed_forward_norm = LayerNorm(parameters_, name + ".ln_2", width, config_.norm_epsilon);
  if (config_.moe_experts == 1) {
    block.experts.push_back(make_feed_forward(name + ".mlp"));
    return block;
  }
  block.expert_gate =
      parameters_.add(name + ".mlp.gate.weight", {config_.moe_experts, regimes}, WeightDecay::no, normal);
  for (int64_t expert = 0; expert < config_.moe_experts; ++expert) {
    block.experts.push_back(make_feed_forward(name + ".mlp.experts." + std::to_string(expert)));
  }
  return block;
}

Variable FuzzyTransformer::FeedForward::operator()(Tape& tape, const Variable& x) const {
  return down(tape, ops::bias_gelu(tape, ops::linear(tape, x, up.weight()), up.bias()));
}

Variable FuzzyTransformer::feed_forward(Tape& tape, const Block& block, const Variable& x, const BlockRun& run) const {
  if (block.experts.size() == 1) return block.experts.front()(tape, x);
  const Variable logits = ops::linear(tape, run.length_aware.memberships, block.expert_gate);
  const ops::ExpertChoice choice = run.choose_experts(tape, logits);
  const ops::ExpertRouting routing = ops::route_to_experts(choice.experts, config_.moe_experts);
  std::vector<Variable> outputs;
  for (size_t expert = 0; expert < block.experts.size(); ++expert) {
    outputs.push_back(block.experts[expert](tape, ops::gather_rows(tape, x, routing.tokens[expert])));
  }
  return ops::mix_experts(tape, outputs, choice.weights, routing);
}

Variable FuzzyTransformer::block(Tape& tape, int64_t layer, const Variable& x, const BlockRun& run) const {
  const Block& block = blocks_[static_cast<size_t>(layer)];
  const auto gated = [&](const Variable& branch) {
    return ops::scale_rows_by_gate(tape, branch, run.length_aware.memberships, block.eta);
  };
  const Variable attended = run.attend(tape, block.qkv(tape, block.attention_norm(tape, x)));
  const Variable scaled = run.length_aware.scale_documents(tape, attended, block.gamma);
  const Variable middle = ops::add(tape, x, run.drop(tape, gated(block.projection(tape, scaled)), 0));
  const Variable fed = feed_forward(tape, block, block.feed_forward_norm(tape, middle), run);
  return ops::add(tape, middle, run.drop(tape, gated(fed), 1));
}

std::vector<Variable> FuzzyTransformer::block_parameters(int64_t layer) const {
  const Block& block = blocks_[static_cast<size_t>(layer)];
  std::vector<Variable> parameters{block.gamma, block.eta};
  if (block.expert_gate.defined()) parameters.push_back(block.expert_gate);
  for (const LayerNorm* norm : {&block.attention_norm, &block.feed_forward_norm}) {
    for (const Variable& parameter : norm->parameters()) parameters.push_back(parameter);
  }
  std::vector<const Linear*> linears{&block.qkv, &block.projection};
  for (const FeedForward& expert : block.experts) linears.insert(linears.end(), {&expert.up, &expert.down});
  for (const Linear* linear : linears) {
    parameters.push_back(linear->weight());
    parameters.push_back(linear->bias());
  }
  return parameters;
}

int64_t FuzzyTransformer::feed_forward_matrices() const {
  return 2 * (config_.moe_experts == 1 ? 1 : config_.moe_chosen);
}

std::vector<double> FuzzyTransformer::residual_gates(int64_t length) const {
  std::vector<double> gates;
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Tensor memberships = prior_memory_->memberships(static_cast<int64_t>(layer), length, DType::f64);
    const Tensor weight = blocks_[layer].eta.value().to(DType::f64);
    double sum = 0;
    for (int64_t t = 0; t < length; ++t) {
      double score = 0;
      for (int64_t r = 0; r < weight.count(); ++r)
        score += weight.data<double>()[r] * memberships.data<double>()[t * weight.count() + r];
      sum += 1 / (1 + std::exp(-score));
    }
    gates.push_back(sum / static_cast<double>(length));
  }
  return gates;
}

}  // namespace longhaul
