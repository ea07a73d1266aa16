#include "core/models/hybrid_model.h"

#include "core/models/rope_table.h"
#include "core/ops/dropout.h"
#include "core/ops/embedding.h"

namespace longhaul {

HybridModel::HybridModel(ModelConfig resolved_config, DType dtype) : LanguageModel(std::move(resolved_config), dtype) {
  const Initialization normal = Initialization::normal(config_.initializer_range);
  const Shape table{config_.vocab_size, config_.d_model};
  tokens_ = parameters_.add("embed.weight", table, WeightDecay::yes, normal);
  make_prior_memory(attention_layers(config_));
  stack_ = std::make_unique<MixerStack>(parameters_, config_, activation_dtype(dtype), prior_memory_.get());
  final_norm_ = RmsNorm(parameters_, "norm_f", config_.d_model, config_.norm_epsilon);
  if (!config_.tie_embeddings) head_ = parameters_.add("lm_head.weight", table, WeightDecay::yes, normal);
}

Variable HybridModel::hidden(ForwardContext& context) {
  check_row_length(context.batch.length());
  Variable x = ops::embedding(context.tape, context.batch, tokens_);
  x = ops::dropout(context.tape, x, context.training ? config_.dropout : 0, context.random_key(0), context.batch);
  return final_norm_(context.tape, stack_->forward(context, x));
}

std::unique_ptr<DecodeState> HybridModel::make_decode_state(int64_t sequences, int64_t max_length) const {
  check_state_length(max_length);
  auto states = std::make_unique<MixerStates>(sequences, max_length);
  stack_->append_states(*states, sequences, max_length);
  return states;
}

Tensor HybridModel::decode(DecodeState& state, const std::vector<std::vector<int32_t>>& ids) const {
  auto& states = dynamic_cast<MixerStates&>(state);
  const PackedTokens packed = pack_tokens(states, ids, states.max_length());
  if (packed.rows.runs.empty()) {
    return Tensor::zeros({states.sequences(), config_.vocab_size}, activation_dtype(parameters_.dtype()));
  }
  Tape tape(Tape::Mode::decode);
  const Tensor x = ops::embedding(tape, packed.batch, tokens_).value();
  const Variable h(last_rows(stack_->decode(states, x, packed.rows), packed.rows));
  states.advance(packed.rows);
  return spread_to_sequences(logits(final_norm_(tape, h).value(), tape.mode()), packed.rows, states.sequences());
}

std::vector<LayerFlops> HybridModel::flops(int64_t context_length) const {
  std::vector<LayerFlops> flops = stack_->flops(context_length);
  flops.push_back({"head", 2.0 * static_cast<double>(config_.d_model * config_.vocab_size)});
  return flops;
}

}  // namespace longhaul
