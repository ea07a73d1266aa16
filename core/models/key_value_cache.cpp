#include "core/models/key_value_cache.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/rope.h"

namespace longhaul {

KeyValueCache::KeyValueCache(int64_t layers, int64_t sequences, int64_t max_length, int64_t columns, DType dtype)
    : max_length_(max_length), columns_(columns), lengths_(sequences, 0) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    keys_.push_back(Tensor::empty({sequences, max_length, columns}, dtype));
    values_.push_back(Tensor::empty({sequences, max_length, columns}, dtype));
  }
}

Tensor KeyValueCache::attend(int64_t layer, const Tensor& qkv, const DecodeRows& new_rows,
                             const ops::AttentionOptions& options, const ops::PriorFactors& prior) {
  const int64_t rows = qkv.size(0), stride = qkv.size(1), head_size = options.head_size;
  const int64_t q_columns = options.query_heads * head_size;
  const Tensor output = Tensor::empty({rows, q_columns}, qkv.dtype());
  const Tensor lse = Tensor::empty({options.query_heads, rows}, qkv.dtype());
  dispatch_float("attention", qkv.dtype(), [&](auto type) {
    using T = decltype(type);
    T* const q = qkv.data<T>();
    if (options.rope_table.defined()) {  // q and k lie side by side: one rotation over all their heads
      kernels::rope_rotate(kernels::Cpu{}, q, new_rows.positions.data<int32_t>(), options.rope_table.template data<T>(),
                           rows, options.query_heads + options.key_heads, head_size, stride, false);
    }
    for (const SequenceRows& run : new_rows.runs) {
      const int64_t seen = lengths_[run.sequence];
      T* const keys = keys_[layer].data<T>() + run.sequence * max_length_ * columns_;
      T* const values = values_[layer].data<T>() + run.sequence * max_length_ * columns_;
      for (int64_t i = 0; i < run.count; ++i) {
        const T* const k = q + (run.begin + i) * stride + q_columns;
        std::copy_n(k, columns_, keys + (seen + i) * columns_);
        std::copy_n(k + columns_, columns_, values + (seen + i) * columns_);
      }
      const kernels::AttentionShape shape{.batch = 1,
                                          .query_length = run.count,
                                          .key_length = seen + run.count,
                                          .query_heads = options.query_heads,
                                          .key_heads = options.key_heads,
                                          .head_size = head_size,
                                          .q_stride = stride,
                                          .kv_stride = columns_,
                                          .out_stride = q_columns,
                                          .scale = prior.score_scale(head_size)};
      kernels::attention_forward<T>(kernels::Cpu{}, output.data<T>() + run.begin * q_columns, lse.data<T>(),
                                    q + run.begin * stride, keys, values, nullptr, shape, prior.view<T>());
    }
  });
  return output;
}

void KeyValueCache::advance(const DecodeRows& new_rows) {
  for (const SequenceRows& run : new_rows.runs) lengths_[run.sequence] += run.count;
}

}  // namespace longhaul
