#include "core/models/mixers/attention_mixer.h"

#include "core/models/key_value_cache.h"

namespace longhaul {
namespace {

struct AttentionState : MixerState {
  AttentionState(int64_t sequences, int64_t max_length, int64_t columns, DType dtype, const ops::PriorFactors& factors)
      : cache(1, sequences, max_length, columns, dtype), prior(factors) {}
  void clear(int64_t sequence) override { cache.clear(sequence); }
  KeyValueCache cache;
  ops::PriorFactors prior;
};

}  // namespace

AttentionHeads::AttentionHeads(ParameterStore& store, const std::string& prefix, const ModelConfig& config,
                               const Tensor& rope_table)
    : qkv_(store, prefix + ".qkv_proj", config.d_model,
           (config.n_head + 2 * config.n_kv_head) * (config.d_model / config.n_head), Linear::Bias::no,
           config.initializer_range),
      options_{config.n_head, config.n_kv_head, config.d_model / config.n_head, rope_table} {}

Variable AttentionHeads::forward(Tape& tape, const Variable& x, const Batch& batch,
                                 const ops::LengthPrior* prior) const {
  return ops::attention(tape, qkv_(tape, x), batch, options_, prior);
}

std::unique_ptr<MixerState> AttentionHeads::make_state(int64_t sequences, int64_t max_length,
                                                       const ops::PriorFactors& prior) const {
  return std::make_unique<AttentionState>(sequences, max_length, options_.key_heads * options_.head_size,
                                          options_.rope_table.dtype(), prior);
}

Tensor AttentionHeads::decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const {
  auto& [cache, prior] = dynamic_cast<AttentionState&>(state);
  Tape tape(Tape::Mode::decode);
  const Tensor attended = cache.attend(0, qkv_(tape, Variable(x)).value(), rows, options_, prior);
  cache.advance(rows);
  return attended;
}

std::vector<LayerFlops> AttentionHeads::flops(int64_t context_length) const {
  const double mean_keys = (static_cast<double>(context_length) + 1) / 2;  // causal: 1 + 2 + ... + T over T
  return {{"mixer input projection", 2.0 * static_cast<double>(qkv_.weight().value().count())},
          {"attention scores", 2 * 2 * static_cast<double>(columns()) * mean_keys}};  // q k^T and p v
}

}  // namespace longhaul
