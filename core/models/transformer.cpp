#include "core/models/transformer.h"

#include "core/models/rope_table.h"
#include "core/ops/activation.h"
#include "core/ops/add.h"

namespace longhaul {

Transformer::Transformer(ModelConfig resolved_config, DType dtype) : DecoderModel(std::move(resolved_config), dtype) {
  const Initialization normal = Initialization::normal(config_.initializer_range);
  tokens_ =
      parameters_.add("model.embed_tokens.weight", {config_.vocab_size, config_.d_model}, WeightDecay::yes, normal);
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) blocks_.push_back(make_block(layer));
  final_norm_ = RmsNorm(parameters_, "model.norm", config_.d_model, config_.norm_epsilon);
  if (!config_.tie_embeddings) {
    head_ = parameters_.add("lm_head.weight", {config_.vocab_size, config_.d_model}, WeightDecay::yes, normal);
  }
  rope_table_ = make_rope_table(config_, activation_dtype(dtype));
}

Transformer::Block Transformer::make_block(int64_t layer) {
  const std::string name = "model.layers." + std::to_string(layer);
  const int64_t width = config_.d_model;
  const double deviation = config_.initializer_range;
  const auto linear = [&](const std::string& suffix, int64_t inputs, int64_t outputs) {
    return Linear(parameters_, name + suffix, inputs, outputs, Linear::Bias::no, deviation);
  };
  Block block;
  add_length_aware_layer(name + ".rpa");
  block.attention_norm = RmsNorm(parameters_, name + ".input_layernorm", width, config_.norm_epsilon);
  block.qkv = linear(".self_attn.qkv_proj", width, qkv_columns());
  block.projection = linear(".self_attn.o_proj", width, width);
  block.feed_forward_norm = RmsNorm(parameters_, name + ".post_attention_layernorm", width, config_.norm_epsilon);
  block.gate_up = linear(".mlp.gate_up_proj", width, 2 * config_.d_ff);
  block.down = linear(".mlp.down_proj", config_.d_ff, width);
  return block;
}

Variable Transformer::block(Tape& tape, int64_t layer, const Variable& x, const BlockRun& run) const {
  const Block& block = blocks_[layer];
  const Variable attended = run.attend(tape, block.qkv(tape, block.attention_norm(tape, x)));
  const Variable middle = ops::add(tape, x, run.drop(tape, block.projection(tape, attended), 0));
  const Variable active = ops::swiglu(tape, block.gate_up(tape, block.feed_forward_norm(tape, middle)));
  return ops::add(tape, middle, run.drop(tape, block.down(tape, active), 1));
}

std::vector<Variable> Transformer::block_parameters(int64_t layer) const {
  const Block& block = blocks_[layer];
  std::vector<Variable> parameters;
  for (const RmsNorm* norm : {&block.attention_norm, &block.feed_forward_norm}) {
    for (const Variable& parameter : norm->parameters()) parameters.push_back(parameter);
  }
  for (const Linear* linear : {&block.qkv, &block.projection, &block.gate_up, &block.down}) {
    parameters.push_back(linear->weight());
  }
  return parameters;
}

}  // namespace longhaul
