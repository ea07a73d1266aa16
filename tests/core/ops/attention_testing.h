// Batches, options and the dense definition for the attention tests.
#pragma once

#include <cmath>
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

/// Token (b, t)'s vector of one head, rotated by the definition.
inline std::vector<double> head_vector(const Tensor& qkv, const Batch& batch, int64_t token, int64_t offset,
                                       int64_t size, bool rope) {
  const double* x = qkv.data<double>() + token * qkv.size(1) + offset;
  std::vector<double> out(x, x + size);
  if (!rope) return out;
  const int64_t half = size / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = batch.positions.data<int32_t>()[token] *
                         std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size));
    out[static_cast<size_t>(i)] = x[i] * std::cos(angle) - x[i + half] * std::sin(angle);
    out[static_cast<size_t>(i + half)] = x[i + half] * std::cos(angle) + x[i] * std::sin(angle);
  }
  return out;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Attention written out: every query, every key it may see. bias [T, T]: added to all scores; none when empty.
inline Tensor dense_attention(const Tensor& qkv, const Batch& batch, const ops::AttentionOptions& options,
                              const std::vector<double>& bias = {}) {
  const int64_t size = options.head_size, length = batch.length();
  const bool rope = options.rope_table.defined();
  const Tensor out = Tensor::zeros({batch.tokens(), options.query_heads * size}, DType::f64);
  for (int64_t token = 0; token < batch.tokens(); ++token) {
    const int64_t row_start = token / length * length;
    const int64_t first = row_start + batch.document_start.data<int32_t>()[token];
    for (int64_t head = 0; head < options.query_heads; ++head) {
      const int64_t key_head = head * options.key_heads / options.query_heads;
      const int64_t k_offset = (options.query_heads + key_head) * size;
      const int64_t v_offset = (options.query_heads + options.key_heads + key_head) * size;
      const std::vector<double> q = head_vector(qkv, batch, token, head * size, size, rope);
      double total = 0;
      double* y = out.data<double>() + token * out.size(1) + head * size;
      for (int64_t key = first; key <= token; ++key) {
        const std::vector<double> k = head_vector(qkv, batch, key, k_offset, size, rope);
        const size_t at = static_cast<size_t>((token - row_start) * length + key - row_start);
        const double weight =
            std::exp(dot(q, k) / std::sqrt(static_cast<double>(size)) + (bias.empty() ? 0.0 : bias[at]));
        const std::vector<double> v = head_vector(qkv, batch, key, v_offset, size, false);
        for (int64_t i = 0; i < size; ++i) y[i] += weight * v[static_cast<size_t>(i)];
        total += weight;
      }
      for (int64_t i = 0; i < size; ++i) y[i] /= total;
    }
  }
  return out;
}

}  // namespace longhaul::testing
