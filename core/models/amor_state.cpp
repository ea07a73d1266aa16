#include "core/models/amor_state.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/rope.h"

namespace longhaul {
namespace {

/// Fired rows [begin, end) that follow each other in one sequence: one attention call.
struct QueryRun {
  int64_t begin, end;
  int64_t sequence;
  int64_t last_position;
};

std::vector<QueryRun> query_runs(std::span<const int32_t> fired, const DecodeRows& rows) {
  const std::span<const int32_t> positions = rows.positions.span<int32_t>();
  std::vector<QueryRun> runs;
  size_t at = 0;
  for (const SequenceRows& run : rows.runs) {
    int32_t before = -1;
    for (; at < fired.size() && fired[at] < run.begin + run.count; ++at) {
      const int64_t index = static_cast<int64_t>(at);
      if (before < 0 || fired[at] != before + 1) runs.push_back({index, index, run.sequence, 0});
      before = fired[at];
      runs.back().end = index + 1;
      runs.back().last_position = positions[static_cast<size_t>(before)];
    }
  }
  return runs;
}

}  // namespace

GatedAttentionState::GatedAttentionState(int64_t sequences, int64_t max_length, const ops::AttentionOptions& options,
                                         DType dtype, const ops::PriorFactors& prior)
    : options_(options), prior_(prior) {
  keys_ = Tensor::empty({sequences, max_length, columns()}, dtype);
  values_ = Tensor::empty({sequences, max_length, columns()}, dtype);
}

void GatedAttentionState::append(const Tensor& kv, const DecodeRows& rows) {
  dispatch_float("gated attention", kv.dtype(), [&](auto type) {
    using T = decltype(type);
    kernels::rope_rotate(kernels::Cpu{}, kv.data<T>(), rows.positions.data<int32_t>(),
                         options_.rope_table.template data<T>(), kv.size(0), options_.key_heads, options_.head_size,
                         kv.size(1), false);
    const int32_t* const positions = rows.positions.data<int32_t>();
    for (const SequenceRows& run : rows.runs) {
      for (int64_t row = run.begin; row < run.begin + run.count; ++row) {
        const int64_t to = (run.sequence * keys_.size(1) + positions[row]) * columns();
        const T* const from = kv.data<T>() + row * kv.size(1);
        std::copy_n(from, columns(), keys_.data<T>() + to);
        std::copy_n(from + columns(), columns(), values_.data<T>() + to);
      }
    }
  });
}

Tensor GatedAttentionState::attend(const Tensor& q, const Tensor& fired, const DecodeRows& rows) const {
  const int64_t count = q.size(0), width = q.size(1);
  const Tensor output = Tensor::empty({count, width}, q.dtype());
  const Tensor lse = Tensor::empty({options_.query_heads, count}, q.dtype());
  const Tensor positions = Tensor::empty({count}, DType::i32);
  for (int64_t i = 0; i < count; ++i) {
    positions.data<int32_t>()[i] = rows.positions.data<int32_t>()[fired.data<int32_t>()[i]];
  }
  dispatch_float("gated attention", q.dtype(), [&](auto type) {
    using T = decltype(type);
    kernels::rope_rotate(kernels::Cpu{}, q.data<T>(), positions.data<int32_t>(), options_.rope_table.template data<T>(),
                         count, options_.query_heads, options_.head_size, width, false);
    for (const QueryRun& run : query_runs(fired.span<int32_t>(), rows)) {
      const int64_t at = run.sequence * keys_.size(1) * columns();
      const kernels::AttentionShape shape{.batch = 1,
                                          .query_length = run.end - run.begin,
                                          .key_length = run.last_position + 1,
                                          .query_heads = options_.query_heads,
                                          .key_heads = options_.key_heads,
                                          .head_size = options_.head_size,
                                          .q_stride = width,
                                          .kv_stride = columns(),
                                          .out_stride = width,
                                          .scale = prior_.score_scale(options_.head_size)};
      kernels::attention_forward<T>(kernels::Cpu{}, output.data<T>() + run.begin * width, lse.data<T>(),
                                    q.data<T>() + run.begin * width, keys_.data<T>() + at, values_.data<T>() + at,
                                    nullptr, shape, prior_.view<T>());
    }
  });
  return output;
}

}  // namespace longhaul
