#include "core/models/decoder_model.h"

#include <array>
#include <memory>

#include "core/models/key_value_cache.h"
#include "core/models/rope_table.h"
#include "core/ops/dropout.h"
#include "core/ops/embedding.h"

namespace longhaul {
namespace {

/// Random streams of dropout: 0 is the embedding, then two per block.
uint32_t dropout_stream(int64_t layer, int branch) { return static_cast<uint32_t>(1 + 2 * layer + branch); }
/// Of the noise of the experts' gates: far from those of dropout.
uint32_t expert_stream(int64_t layer) { return static_cast<uint32_t>((1 << 20) + layer); }

struct DecoderState : KeyValueCache {
  using KeyValueCache::KeyValueCache;
  std::vector<FrozenLayer> frozen;  ///< by block
};

}  // namespace

DecoderModel::DecoderModel(ModelConfig resolved_config, DType dtype)
    : LanguageModel(std::move(resolved_config), dtype) {
  make_prior_memory(config_.n_layer);
}

void DecoderModel::add_length_aware_layer(const std::string& name) {
  const int64_t index = static_cast<int64_t>(length_aware_.size());
  length_aware_.emplace_back(parameters_, name, config_, index, prior_memory_.get());
}

ops::ExpertChoice DecoderModel::choose_experts(Tape& tape, const Variable& logits, const Batch& batch, bool noisy,
                                               kernels::RandomKey key) const {
  const kernels::ExpertGate gate{.experts = config_.moe_experts,
                                 .chosen = config_.moe_chosen,
                                 .temperature = config_.moe_temperature,
                                 .noisy = noisy,
                                 .key = key};
  return ops::expert_gate(tape, logits, gate, batch);
}

ops::AttentionOptions DecoderModel::attention_options() const {
  return {.query_heads = config_.n_head,
          .key_heads = config_.n_kv_head,
          .head_size = head_size(),
          .rope_table = rope_table_};
}

Variable DecoderModel::hidden(ForwardContext& context) {
  check_row_length(context.batch.length());
  // Recomputation runs blocks again in the backward pass, so what they need is held by value, not through `context`.
  const auto batch = std::make_shared<const Batch>(context.batch);
  const ops::AttentionOptions options = attention_options();
  const double probability = context.training ? config_.dropout : 0;
  const auto drop = [batch, probability](Tape& tape, const Variable& x, kernels::RandomKey key) {
    return ops::dropout(tape, x, probability, key, *batch);
  };
  Variable x = ops::embedding(context.tape, *batch, tokens_, positions_);
  x = drop(context.tape, x, context.random_key(0));
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    const std::array keys{context.random_key(dropout_stream(layer, 0)), context.random_key(dropout_stream(layer, 1))};
    const LengthAwareRun length_aware = length_aware_layer(layer).run(context, x);
    BlockRun run;
    run.length_aware = length_aware.kept();
    run.attend = [batch, options, prior = run.length_aware.prior](Tape& tape, const Variable& qkv) {
      return ops::attention(tape, qkv, *batch, options, prior ? &*prior : nullptr);
    };
    run.drop = [drop, keys](Tape& tape, const Variable& branch_output, int branch) {
      return drop(tape, branch_output, keys[static_cast<size_t>(branch)]);
    };
    run.choose_experts = [this, batch, noisy = context.training, key = context.random_key(expert_stream(layer))](
                             Tape& tape, const Variable& logits) {
      return choose_experts(tape, logits, *batch, noisy, key);
    };
    const auto forward = [this, layer, run](Tape& tape, const Variable& input) {
      return block(tape, layer, input, run);
    };
    x = config_.recompute ? recompute(context.tape, x, length_aware.inputs(block_parameters(layer)), forward)
                          : forward(context.tape, x);
  }
  return final_norm(context.tape, x);
}

std::unique_ptr<DecodeState> DecoderModel::make_decode_state(int64_t sequences, int64_t max_length) const {
  check_state_length(max_length);
  const DType dtype = activation_dtype(parameters_.dtype());
  auto state =
      std::make_unique<DecoderState>(config_.n_layer, sequences, max_length, config_.n_kv_head * head_size(), dtype);
  for (const LengthAwareLayer& layer : length_aware_) state->frozen.push_back(layer.freeze(max_length, dtype));
  return state;
}

Tensor DecoderModel::decode(DecodeState& state, const std::vector<std::vector<int32_t>>& ids) const {
  auto& cache = dynamic_cast<DecoderState&>(state);
  const PackedTokens packed = pack_tokens(cache, ids, cache.max_length());
  if (packed.rows.runs.empty())
    return Tensor::zeros({cache.sequences(), config_.vocab_size}, activation_dtype(parameters_.dtype()));

  Tape tape(Tape::Mode::decode);
  Variable x = ops::embedding(tape, packed.batch, tokens_, positions_);
  const ops::AttentionOptions options = attention_options();
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    const FrozenLayer& frozen = cache.frozen[static_cast<size_t>(layer)];
    BlockRun run;
    if (frozen.memberships.defined()) run.length_aware = frozen_run(frozen.memberships, packed.rows.positions);
    run.attend = [&](Tape&, const Variable& qkv) {
      return Variable(cache.attend(layer, qkv.value(), packed.rows, options, frozen.factors));
    };
    run.drop = [](Tape&, const Variable& branch_output, int) { return branch_output; };
    run.choose_experts = [&](Tape& inner, const Variable& logits) {
      return choose_experts(inner, logits, packed.batch, false, {});
    };
    x = block(tape, layer, x, run);
  }
  cache.advance(packed.rows);
  const Tensor logits = this->logits(last_rows(final_norm(tape, x).value(), packed.rows), tape.mode());
  return spread_to_sequences(logits, packed.rows, cache.sequences());
}

std::vector<LayerFlops> DecoderModel::flops(int64_t context_length) const {
  const double layers = static_cast<double>(config_.n_layer), width = static_cast<double>(config_.d_model);
  const double mean_keys = (static_cast<double>(context_length) + 1) / 2;  // causal: 1 + 2 + ... + T over T
  std::vector<LayerFlops> flops{
      {"attention projections", layers * 2 * width * (static_cast<double>(qkv_columns()) + width)},
      {"attention scores", layers * 2 * 2 * width * mean_keys},  // q k^T and p v
      {"feed-forward", layers * 2 * width * static_cast<double>(feed_forward_matrices() * config_.d_ff)},
      {"head", 2 * width * static_cast<double>(config_.vocab_size)}};
  for (const LengthAwareLayer& layer : length_aware_) add_flops(flops, layer.flops());
  return flops;
}

}  // namespace longhaul
