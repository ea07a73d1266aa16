#include "kernels/attention.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/ops/attention.h"
#include "core/ops/op_support.h"
#include "kernels/rope.h"

namespace longhaul::ops {
namespace {

void check(const Tensor& qkv, const Batch& batch, const AttentionOptions& options) {
  check_attention_options("attention", batch, options);
  check_tokens("attention", qkv, batch.tokens());
  check_columns("attention", "qkv", qkv, (options.query_heads + 2 * options.key_heads) * options.head_size);
}

kernels::AttentionShape kernel_shape(const Batch& batch, const AttentionOptions& options, const PriorFactors& prior) {
  kernels::AttentionShape shape;
  shape.batch = batch.rows();
  shape.query_length = shape.key_length = batch.length();
  shape.query_heads = options.query_heads;
  shape.key_heads = options.key_heads;
  shape.head_size = options.head_size;
  shape.q_stride = shape.kv_stride = (options.query_heads + 2 * options.key_heads) * options.head_size;
  shape.out_stride = options.query_heads * options.head_size;
  shape.scale = prior.score_scale(options.head_size);
  return shape;
}

/// The q, k and v parts of a [rows, (Hq + 2 Hkv) D] matrix.
template <typename T>
struct Parts {
  Parts(const Tensor& qkv, const kernels::AttentionShape& shape)
      : q(qkv.data<T>()), k(q + shape.query_heads * shape.head_size), v(k + shape.key_heads * shape.head_size) {}
  T *q, *k, *v;
};

/// Rotates the query and key heads of every row, which lie side by side.
template <typename T>
void rotate(const Tensor& qkv, const Batch& batch, const AttentionOptions& options, bool inverse) {
  kernels::rope_rotate<T>(kCpu, qkv.data<T>(), batch.positions.data<int32_t>(), options.rope_table.data<T>(),
                          qkv.size(0), options.query_heads + options.key_heads, options.head_size, qkv.size(1),
                          inverse);
}

/// What the backward pass reads; qkv is rotated.
struct Saved {
  Tensor qkv, out, lse;
  Batch batch;
  AttentionOptions options;
  PriorFactors prior;
};

template <typename T>
Saved forward(const Tensor& qkv, const Batch& batch, const AttentionOptions& options, const LengthPrior* prior) {
  Saved saved{qkv, Tensor(), Tensor(), batch, options, PriorFactors()};
  if (prior != nullptr) saved.prior = PriorFactors(*prior, batch.length(), qkv.dtype());
  if (options.rope_table.defined()) {
    saved.qkv = qkv.clone();  // the caller's qkv stays as it is; its memory goes when its Variable does
    rotate<T>(saved.qkv, batch, options, false);
  }
  const kernels::AttentionShape shape = kernel_shape(batch, options, saved.prior);
  saved.out = Tensor::empty({qkv.size(0), shape.out_stride}, qkv.dtype());
  saved.lse = Tensor::empty({shape.batch, shape.query_heads, shape.query_length}, qkv.dtype());
  const Parts<T> x(saved.qkv, shape);
  kernels::attention_forward<T>(kCpu, saved.out.data<T>(), saved.lse.data<T>(), x.q, x.k, x.v,
                                batch.document_start.data<int32_t>(), shape, saved.prior.view<T>());
  return saved;
}

template <typename T>
void backward(const Tensor& dout, const Saved& saved, const GradientTarget& target) {
  const kernels::AttentionShape shape = kernel_shape(saved.batch, saved.options, saved.prior);
  const Tensor delta = Tensor::empty(saved.lse.shape(), saved.lse.dtype());
  const PriorSums prior_sums = saved.prior.make_sums(saved.batch.tokens(), shape.query_heads);
  write_gradients({target}, {saved.qkv.shape()}, dtype_of<T>, [&](const std::vector<Tensor>& written) {
    const Parts<T> x(saved.qkv, shape), dx(written[0], shape);
    kernels::attention_backward<T>(kCpu, dx.q, dx.k, dx.v, delta.data<T>(), dout.data<T>(), saved.out.data<T>(),
                                   saved.lse.data<T>(), x.q, x.k, x.v, saved.batch.document_start.data<int32_t>(),
                                   shape, saved.prior.view<T>(), prior_sums.view<T>());
    if (saved.options.rope_table.defined()) rotate<T>(written[0], saved.batch, saved.options, true);
  });
  saved.prior.backward<T>(prior_sums);
}

}  // namespace

void check_attention_options(const char* op, const Batch& batch, const AttentionOptions& options) {
  const int64_t hq = options.query_heads, hk = options.key_heads, size = options.head_size;
  if (hq < 1 || hk < 1 || size < 1 || hq % hk != 0) {
    throw internal_error("{}: {} query heads, {} key heads of size {}: key heads must divide query heads", op, hq, hk,
                         size);
  }
  if (!options.rope_table.defined()) return;
  check_columns(op, "RoPE table", options.rope_table, size);
  const std::span<const int32_t> positions = batch.positions.span<int32_t>();
  const auto last = std::max_element(positions.begin(), positions.end());
  if (last != positions.end() && *last >= options.rope_table.size(0)) {
    throw user_error("{}: position {} is beyond the RoPE table of {} positions; raise the context length", op, *last,
                     options.rope_table.size(0));
  }
}

Variable attention(Tape& tape, const Variable& qkv, const Batch& batch, const AttentionOptions& options,
                   const LengthPrior* prior) {
  check(qkv.value(), batch, options);
  std::vector<Variable> inputs{qkv};
  if (prior != nullptr) inputs.insert(inputs.end(), {prior->mean_memberships, prior->alignment, prior->pos_beta});
  return dispatch_float("attention", qkv.dtype(), [&](auto type) {
    using T = decltype(type);
    Saved saved = forward<T>(qkv.value(), batch, options, prior);
    const Tensor out = saved.out;
    return tape.record("attention", out, inputs, [saved = std::move(saved), target = qkv.target()](const Tensor& dout) {
      backward<T>(dout, saved, target);
    });
  });
}

}  // namespace longhaul::ops
