// Batches and options of the attention tests.
#pragma once

#include <utility>
#include <vector>

#include "core/ops/attention.h"
#include "kernels/rope.h"

namespace longhaul::testing {

/// Without documents when document_start is empty.
inline Batch batch_of(int64_t rows, int64_t length, std::vector<int32_t> document_start = {}) {
  const std::vector<int32_t> zeros(static_cast<size_t>(rows * length), 0);
  return make_batch(rows, length, zeros, zeros, std::move(document_start),
                    std::vector<int64_t>(static_cast<size_t>(rows), 0));
}

/// Rotary angles for 64 positions, in double, or none.
inline ops::AttentionOptions options_of(int64_t query_heads, int64_t key_heads, int64_t head_size, bool rope) {
  ops::AttentionOptions options{query_heads, key_heads, head_size, Tensor()};
  if (rope) {
    options.rope_table = Tensor::empty({64, head_size}, DType::f64);
    kernels::rope_table(kernels::Cpu{}, options.rope_table.data<double>(), 64, head_size, 10000.0);
  }
  return options;
}

}  // namespace longhaul::testing
