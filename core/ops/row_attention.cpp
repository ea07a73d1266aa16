#include "core/ops/row_attention.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/ops/op_support.h"
#include "core/ops/rows.h"
#include "kernels/attention.h"
#include "kernels/rope.h"

namespace longhaul::ops {
namespace {

constexpr const char* kName = "row_attention";

void check(const Tensor& q, const Tensor& kv, const Tensor& query_rows, const Batch& batch,
           const AttentionOptions& options) {
  check_attention_options(kName, batch, options);
  check_tokens(kName, kv, batch.tokens());
  check_columns(kName, "kv", kv, 2 * options.key_heads * options.head_size);
  check_columns(kName, "q", q, options.query_heads * options.head_size);
  if (q.size(0) != query_rows.count() || q.dtype() != kv.dtype()) {
    throw internal_error("{}: q {} {} and kv {} {} do not go with {} query rows", kName, name_of(q.dtype()),
                         q.shape().text(), name_of(kv.dtype()), kv.shape().text(), query_rows.count());
  }
  check_rows(kName, query_rows, batch.tokens());
}

kernels::AttentionShape kernel_shape(const Batch& batch, const AttentionOptions& options, const PriorFactors& prior) {
  kernels::AttentionShape shape;
  shape.batch = batch.rows();
  shape.query_length = shape.key_length = batch.length();
  shape.query_heads = options.query_heads;
  shape.key_heads = options.key_heads;
  shape.head_size = options.head_size;
  shape.q_stride = shape.out_stride = options.query_heads * options.head_size;
  shape.kv_stride = 2 * options.key_heads * options.head_size;
  shape.scale = prior.score_scale(options.head_size);
  return shape;
}

/// What the backward pass reads; q and kv are rotated.
struct Saved {
  Tensor q, kv, out, lse, query_rows, query_positions;
  Batch batch;
  AttentionOptions options;
  PriorFactors prior;
};

/// Rotates the queries and the keys, in place.
template <typename T>
void rotate(const Tensor& q, const Tensor& kv, const Saved& saved, bool inverse) {
  const AttentionOptions& options = saved.options;
  const T* const table = options.rope_table.data<T>();
  kernels::rope_rotate<T>(kCpu, q.data<T>(), saved.query_positions.data<int32_t>(), table, q.size(0),
                          options.query_heads, options.head_size, q.size(1), inverse);
  kernels::rope_rotate<T>(kCpu, kv.data<T>(), saved.batch.positions.data<int32_t>(), table, kv.size(0),
                          options.key_heads, options.head_size, kv.size(1), inverse);
}

Tensor positions_of(const Tensor& query_rows, const Batch& batch) {
  std::vector<int32_t> positions;
  positions.reserve(static_cast<size_t>(query_rows.count()));
  for (const int32_t row : query_rows.span<int32_t>()) positions.push_back(batch.positions.data<int32_t>()[row]);
  return Tensor::from<int32_t>({query_rows.count()}, positions);
}

template <typename T>
Saved forward(const Tensor& q, const Tensor& kv, const Tensor& query_rows, const Batch& batch,
              const AttentionOptions& options, const LengthPrior* prior) {
  Saved saved{q, kv, Tensor(), Tensor(), query_rows, Tensor(), batch, options, PriorFactors()};
  if (prior != nullptr) saved.prior = PriorFactors(*prior, batch.length(), kv.dtype());
  if (options.rope_table.defined()) {
    saved.query_positions = positions_of(query_rows, batch);
    saved.q = q.clone();  // the caller's matrices stay as they are
    saved.kv = kv.clone();
    rotate<T>(saved.q, saved.kv, saved, false);
  }
  const kernels::AttentionShape shape = kernel_shape(batch, options, saved.prior);
  saved.out = Tensor::empty({q.size(0), shape.out_stride}, q.dtype());
  saved.lse = Tensor::empty({shape.query_heads, q.size(0)}, q.dtype());
  const T* const k = saved.kv.data<T>();
  kernels::attention_rows_forward<T>(kCpu, saved.out.data<T>(), saved.lse.data<T>(), saved.q.data<T>(), k,
                                     k + shape.key_heads * shape.head_size, query_rows.data<int32_t>(), q.size(0),
                                     batch.document_start.data<int32_t>(), shape, saved.prior.view<T>());
  return saved;
}

template <typename T>
void backward(const Tensor& dout, const Saved& saved, const GradientTarget& q_target, const GradientTarget& kv_target) {
  const kernels::AttentionShape shape = kernel_shape(saved.batch, saved.options, saved.prior);
  const int64_t values = shape.key_heads * shape.head_size;
  const Tensor delta = Tensor::empty(saved.lse.shape(), saved.lse.dtype());
  const Tensor dq = Tensor::empty(saved.q.shape(), saved.q.dtype());
  const PriorSums prior_sums = saved.prior.make_sums(saved.q.size(0), shape.query_heads);
  const auto run = [&](const Tensor& dkv) {
    const T* const k = saved.kv.data<T>();
    T* const dk = dkv.data<T>();
    kernels::attention_rows_backward<T>(
        kCpu, dq.data<T>(), dk, dk + values, delta.data<T>(), dout.data<T>(), saved.out.data<T>(), saved.lse.data<T>(),
        saved.q.data<T>(), k, k + values, saved.query_rows.data<int32_t>(), dq.size(0),
        saved.batch.document_start.data<int32_t>(), shape, saved.prior.view<T>(), prior_sums.view<T>());
    if (saved.options.rope_table.defined()) rotate<T>(dq, dkv, saved, true);
  };
  if (kv_target.wanted()) {
    write_gradient(kv_target, run);
  } else {
    run(Tensor::empty(saved.kv.shape(), saved.kv.dtype()));
  }
  if (q_target.wanted()) q_target.give(dq);
  saved.prior.backward<T>(prior_sums);
}

}  // namespace

Variable row_attention(Tape& tape, const Variable& q, const Variable& kv, const Tensor& query_rows, const Batch& batch,
                       const AttentionOptions& options, const LengthPrior* prior) {
  check(q.value(), kv.value(), query_rows, batch, options);
  std::vector<Variable> inputs{q, kv};
  if (prior != nullptr) inputs.insert(inputs.end(), {prior->mean_memberships, prior->alignment, prior->pos_beta});
  return dispatch_float(kName, kv.dtype(), [&](auto type) {
    using T = decltype(type);
    Saved saved = forward<T>(q.value(), kv.value(), query_rows, batch, options, prior);
    const Tensor out = saved.out;
    return tape.record(kName, out, inputs,
                       [saved = std::move(saved), q_target = q.target(), kv_target = kv.target()](const Tensor& dout) {
                         backward<T>(dout, saved, q_target, kv_target);
                       });
  });
}

}  // namespace longhaul::ops
