#include "core/models/gpt2.h"

#include <cmath>

#include "core/ops/activation.h"
#include "core/ops/add.h"
#include "core/ops/linear.h"

namespace longhaul {

Gpt2::Gpt2(ModelConfig resolved_config, DType dtype) : DecoderModel(std::move(resolved_config), dtype) {
  const Initialization normal = Initialization::normal(config_.initializer_range);
  tokens_ = parameters_.add("transformer.wte.weight", {config_.vocab_size, config_.d_model}, WeightDecay::yes, normal);
  positions_ =
      parameters_.add("transformer.wpe.weight", {config_.context_length, config_.d_model}, WeightDecay::yes, normal);
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) blocks_.push_back(make_block(layer));
  final_norm_ = LayerNorm(parameters_, "transformer.ln_f", config_.d_model, config_.norm_epsilon);
  if (!config_.tie_embeddings) {
    head_ = parameters_.add("lm_head.weight", {config_.vocab_size, config_.d_model}, WeightDecay::yes, normal);
  }
}

Gpt2::Block Gpt2::make_block(int64_t layer) {
  const std::string name = "transformer.h." + std::to_string(layer);
  const int64_t width = config_.d_model;
  const double deviation = config_.initializer_range;
  const double residual_deviation = deviation / std::sqrt(2.0 * static_cast<double>(config_.n_layer));
  Block block;
  add_length_aware_layer(name + ".rpa");
  block.attention_norm = LayerNorm(parameters_, name + ".ln_1", width, config_.norm_epsilon);
  block.qkv = Linear(parameters_, name + ".attn.c_attn", width, qkv_columns(), Linear::Bias::yes, deviation);
  block.projection = Linear(parameters_, name + ".attn.c_proj", width, width, Linear::Bias::yes, residual_deviation);
  block.feed_forward_norm = LayerNorm(parameters_, name + ".ln_2", width, config_.norm_epsilon);
  block.up = Linear(parameters_, name + ".mlp.c_fc", width, config_.d_ff, Linear::Bias::yes, deviation);
  block.down = Linear(parameters_, name + ".mlp.c_proj", config_.d_ff, width, Linear::Bias::yes, residual_deviation);
  return block;
}

Variable Gpt2::block(Tape& tape, int64_t layer, const Variable& x, const BlockRun& run) const {
  const Block& block = blocks_[layer];
  const Variable attended = run.attend(tape, block.qkv(tape, block.attention_norm(tape, x)));
  const Variable middle = ops::add(tape, x, run.drop(tape, block.projection(tape, attended), 0));
  // The bias of `up` is added inside the activation: one pass over the widest matrix instead of two.
  const Variable up = ops::linear(tape, block.feed_forward_norm(tape, middle), block.up.weight());
  const Variable active = ops::bias_gelu(tape, up, block.up.bias());
  return ops::add(tape, middle, run.drop(tape, block.down(tape, active), 1));
}

std::vector<Variable> Gpt2::block_parameters(int64_t layer) const {
  const Block& block = blocks_[layer];
  std::vector<Variable> parameters;
  for (const LayerNorm* norm : {&block.attention_norm, &block.feed_forward_norm}) {
    for (const Variable& parameter : norm->parameters()) parameters.push_back(parameter);
  }
  for (const Linear* linear : {&block.qkv, &block.projection, &block.up, &block.down}) {
    parameters.push_back(linear->weight());
    parameters.push_back(linear->bias());
  }
  return parameters;
}

}  // namespace longhaul
