#include "core/models/amor_block.h"

#include <numeric>

#include "core/ops/row_attention.h"
#include "core/ops/rows.h"

namespace longhaul {
namespace {

Tensor all_rows(int64_t count) {
  const Tensor rows = Tensor::empty({count}, DType::i32);
  std::iota(rows.data<int32_t>(), rows.data<int32_t>() + count, 0);
  return rows;
}

void count_work(GateWork& work, const Tensor& fired, const Tensor& positions) {
  int64_t pairs = 0, read = 0;
  for (const int32_t position : positions.span<int32_t>()) pairs += position + 1;
  for (const int32_t row : fired.span<int32_t>()) read += positions.data<int32_t>()[row] + 1;
  work.tokens += positions.count();
  work.fired += fired.count();
  work.keys_read += read;
  work.keys_skipped += pairs - read;
}

}  // namespace

AmorBlock::AmorBlock(ParameterStore& store, const std::string& name, const ModelConfig& config,
                     const Tensor& rope_table)
    : dense_(config.gate.attention == "dense"),
      options_{.query_heads = config.n_head,
               .key_heads = config.n_kv_head,
               .head_size = config.d_model / config.n_head,
               .rope_table = rope_table} {
  const auto linear = [&](const char* suffix, int64_t outputs, double deviation) {
    return Linear(store, name + suffix, config.d_model, outputs, Linear::Bias::no, deviation);
  };
  q_ = linear(".q_proj", config.d_model, config.initializer_range);
  kv_ = linear(".kv_proj", 2 * options_.key_heads * options_.head_size, config.initializer_range);
  out_ = linear(".out_proj", config.d_model, 0);
  raw_alpha_ = store.add(name + ".raw_alpha", {config.d_model}, WeightDecay::no, Initialization::constant(0));
}

Variable AmorBlock::forward(Tape& tape, const Variable& h, const Variable& u, const Tensor& fired, const Batch& batch,
                            const ops::LengthPrior* prior) const {
  const Variable kv = kv_(tape, u);
  const Tensor queried = dense_ ? all_rows(u.value().size(0)) : fired;
  const Variable q = q_(tape, dense_ ? u : ops::gather_rows(tape, u, fired));
  Variable update = out_(tape, ops::row_attention(tape, q, kv, queried, batch, options_, prior));
  if (dense_) update = ops::gather_rows(tape, update, fired);
  return ops::add_gated_rows(tape, h, update, raw_alpha_, fired);
}

std::unique_ptr<GatedAttentionState> AmorBlock::make_state(int64_t sequences, int64_t max_length,
                                                           const ops::PriorFactors& prior) const {
  return std::make_unique<GatedAttentionState>(sequences, max_length, options_, options_.rope_table.dtype(), prior);
}

Tensor AmorBlock::decode(GatedAttentionState& state, const Tensor& h, const Tensor& u, const Tensor& fired,
                         const DecodeRows& rows, GateWork& work) const {
  Tape tape(Tape::Mode::decode);
  const Variable input(u);
  state.append(kv_(tape, input).value(), rows);
  count_work(work, fired, rows.positions);
  if (fired.count() == 0) return h;
  const Tensor q = q_(tape, ops::gather_rows(tape, input, fired)).value();
  const Variable update = out_(tape, Variable(state.attend(q, fired, rows)));
  return ops::add_gated_rows(tape, Variable(h), update, raw_alpha_, fired).value();
}

std::vector<LayerFlops> AmorBlock::flops(int64_t context_length, double rate) const {
  const double width = static_cast<double>(options_.query_heads * options_.head_size);
  const double key_width = static_cast<double>(options_.key_heads * options_.head_size);
  const double mean_keys = (static_cast<double>(context_length) + 1) / 2;
  return {{"gated attention projections", 2 * width * (2 * key_width + rate * 2 * width)},
          {"gated attention scores", rate * 2 * 2 * width * mean_keys}};
}

}  // namespace longhaul
