#include "core/models/decoder_model.h"

#include <array>
#include <memory>

#include "core/models/key_value_cache.h"
#include "core/ops/dropout.h"
#include "core/ops/embedding.h"

namespace longhaul {
namespace {

/// Random streams of dropout: 0 is the embedding, then two per block.
uint32_t dropout_stream(int64_t layer, int branch) { return static_cast<uint32_t>(1 + 2 * layer + branch); }

}  // namespace

void DecoderModel::check_batch(const Batch& batch) const {
  if (batch.length() > config_.context_length) {
    throw user_error(
        "a row of {} tokens is longer than model.context_length {}; shorten the row or enlarge the context",
        batch.length(), config_.context_length);
  }
}

ops::AttentionOptions DecoderModel::attention_options() const {
  return {.query_heads = config_.n_head,
          .key_heads = config_.n_kv_head,
          .head_size = head_size(),
          .rope_table = rope_table_};
}

Variable DecoderModel::hidden(ForwardContext& context) {
  check_batch(context.batch);
  // Recomputation runs blocks again in the backward pass, so what they need is held by value, not through `context`.
  const auto batch = std::make_shared<const Batch>(context.batch);
  const auto attend = [batch, options = attention_options()](Tape& tape, const Variable& qkv) {
    return ops::attention(tape, qkv, *batch, options);
  };
  const double probability = context.training ? config_.dropout : 0;
  const auto drop = [batch, probability](Tape& tape, const Variable& x, kernels::RandomKey key) {
    return ops::dropout(tape, x, probability, key, *batch);
  };
  Variable x = ops::embedding(context.tape, *batch, tokens_, positions_);
  x = drop(context.tape, x, context.random_key(0));
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    const std::array keys{context.random_key(dropout_stream(layer, 0)), context.random_key(dropout_stream(layer, 1))};
    const BlockRun run{attend, [drop, keys](Tape& tape, const Variable& branch_output, int branch) {
                         return drop(tape, branch_output, keys[static_cast<size_t>(branch)]);
                       }};
    const auto forward = [this, layer, run](Tape& tape, const Variable& input) {
      return block(tape, layer, input, run);
    };
    x = config_.recompute ? recompute(context.tape, x, block_parameters(layer), forward) : forward(context.tape, x);
  }
  return final_norm(context.tape, x);
}

std::unique_ptr<DecodeState> DecoderModel::make_decode_state(int64_t sequences, int64_t max_length) const {
  if (max_length > config_.context_length) {
    throw internal_error("decode state of {} tokens exceeds the context of {}", max_length, config_.context_length);
  }
  return std::make_unique<KeyValueCache>(config_.n_layer, sequences, max_length, config_.n_kv_head * head_size(),
                                         activation_dtype());
}

namespace {

/// All new tokens, one sequence after another, as one row of a batch.
struct PackedTokens {
  std::vector<SequenceRows> runs;
  std::vector<int32_t> ids;
};

PackedTokens pack(const KeyValueCache& cache, const std::vector<std::vector<int32_t>>& ids) {
  if (static_cast<int64_t>(ids.size()) != cache.sequences()) {
    throw internal_error("decode: {} id lists for {} sequences", ids.size(), cache.sequences());
  }
  PackedTokens packed;
  for (int64_t sequence = 0; sequence < cache.sequences(); ++sequence) {
    const std::vector<int32_t>& tokens = ids[sequence];
    if (tokens.empty()) continue;
    const int64_t count = static_cast<int64_t>(tokens.size());
    if (cache.length(sequence) + count > cache.max_length()) {
      throw user_error("sequence {} would grow to {} tokens, but there is room for {}", sequence,
                       cache.length(sequence) + count, cache.max_length());
    }
    packed.runs.push_back({sequence, static_cast<int64_t>(packed.ids.size()), count});
    packed.ids.insert(packed.ids.end(), tokens.begin(), tokens.end());
  }
  return packed;
}

/// The last row of every run.
Tensor last_rows(const Tensor& hidden, const std::vector<SequenceRows>& runs) {
  const Tensor rows = Tensor::empty({static_cast<int64_t>(runs.size()), hidden.size(1)}, hidden.dtype());
  for (size_t i = 0; i < runs.size(); ++i) {
    const int64_t row = runs[i].begin + runs[i].count - 1, to = static_cast<int64_t>(i);
    rows.rows(to, to + 1).copy_from(hidden.rows(row, row + 1));
  }
  return rows;
}

}  // namespace

Tensor DecoderModel::decode(DecodeState& state, const std::vector<std::vector<int32_t>>& ids) const {
  auto& cache = dynamic_cast<KeyValueCache&>(state);
  const PackedTokens packed = pack(cache, ids);
  const Tensor result = Tensor::zeros({cache.sequences(), config_.vocab_size}, activation_dtype());
  if (packed.runs.empty()) return result;

  const int64_t count = static_cast<int64_t>(packed.ids.size());
  Tape tape(Tape::Mode::off);
  Batch batch;
  batch.ids = Tensor::from<int32_t>({1, count}, packed.ids);
  const Tensor positions = cache.positions(packed.runs);
  batch.positions = positions.view({1, count});
  Variable x = ops::embedding(tape, batch, tokens_, positions_);
  const ops::AttentionOptions options = attention_options();
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    const BlockRun run{[&](Tape&, const Variable& qkv) {
                         return Variable(cache.attend(layer, qkv.value(), packed.runs, positions, options));
                       },
                       [](Tape&, const Variable& branch_output, int) { return branch_output; }};
    x = block(tape, layer, x, run);
  }
  cache.advance(packed.runs);
  const Tensor logits = this->logits(last_rows(final_norm(tape, x).value(), packed.runs));
  for (size_t i = 0; i < packed.runs.size(); ++i) {
    const int64_t sequence = packed.runs[i].sequence, from = static_cast<int64_t>(i);
    result.rows(sequence, sequence + 1).copy_from(logits.rows(from, from + 1));
  }
  return result;
}

std::vector<LayerFlops> DecoderModel::flops(int64_t context_length) const {
  const double layers = static_cast<double>(config_.n_layer), width = static_cast<double>(config_.d_model);
  const double mean_keys = (static_cast<double>(context_length) + 1) / 2;  // causal: 1 + 2 + ... + T over T
  return {{"attention projections", layers * 2 * width * (static_cast<double>(qkv_columns()) + width)},
          {"attention scores", layers * 2 * 2 * width * mean_keys},  // q k^T and p v
          {"feed-forward", layers * 2 * width * static_cast<double>(feed_forward_matrices() * config_.d_ff)},
          {"head", 2 * width * static_cast<double>(config_.vocab_size)}};
}

}  // namespace longhaul
