#include "core/ops/embedding.h"

#include <numeric>

#include "core/ops/op_support.h"
#include "kernels/embedding.h"

namespace longhaul::ops {
namespace {

void check_range(const Tensor& indices, int64_t limit, const char* what, const char* table) {
  const int64_t length = indices.size(1);
  const int32_t* values = indices.data<int32_t>();
  for (int64_t i = 0; i < indices.count(); ++i) {
    if (values[i] < 0 || values[i] >= limit) {
      throw user_error("embedding: {} {} at row {} position {} is outside the {} of {}", what, values[i], i / length,
                       i % length, table, limit);
    }
  }
}

void check(const Batch& batch, const Variable& tokens, const Variable& positions) {
  check_matrix("embedding", "token table", tokens.value());
  check_range(batch.ids, tokens.shape()[0], "id", "vocabulary");
  if (!positions.defined()) return;
  check_columns("embedding", "position table", positions.value(), tokens.shape()[1]);
  check_range(batch.positions, positions.shape()[0], "position", "context");
}

/// A table and the row of it that every token reads. Of a bf16 table only the rows in use are converted.
struct Lookup {
  Tensor table, indices;
};

Lookup make_lookup(const Tensor& table, const Tensor& indices) {
  if (table.dtype() != DType::bf16) return {table, indices};
  const int64_t rows = indices.count(), columns = table.size(1);
  const Tensor used = Tensor::empty({rows, columns}, DType::f32);
  const Tensor own_row = Tensor::empty({rows}, DType::i32);
  std::iota(own_row.data<int32_t>(), own_row.data<int32_t>() + rows, 0);
  const int32_t* ids = indices.data<int32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    kernels::convert(kCpu, used.data<float>() + row * columns, table.data<bf16>() + ids[row] * columns, columns);
  }
  return {used, own_row};
}

template <typename T>
Tensor forward(const Batch& batch, const Tensor& tokens, const Variable& positions) {
  const int64_t rows = batch.tokens(), columns = tokens.size(1);
  const Lookup token = make_lookup(tokens, batch.ids);
  const Lookup position = positions.defined() ? make_lookup(positions.value(), batch.positions) : Lookup{};
  const Tensor y = Tensor::empty({rows, columns}, dtype_of<T>);
  const bool with_positions = position.table.defined();
  kernels::embedding_forward<T>(kCpu, y.data<T>(), token.indices.data<int32_t>(),
                                with_positions ? position.indices.data<int32_t>() : nullptr, token.table.data<T>(),
                                with_positions ? position.table.data<T>() : nullptr, rows, columns);
  return y;
}

template <typename T>
void backward_table(const GradientTarget& target, const Tensor& indices, const Tensor& dy) {
  if (!target.wanted()) return;
  const GradientSink sink = target.sink();
  if (!sink.accumulate) sink.tensor.zero();
  kernels::embedding_backward(kCpu, sink.tensor.data<T>(), indices.data<int32_t>(), dy.data<T>(), indices.count(),
                              target.shape()[1]);
}

}  // namespace

Variable embedding(Tape& tape, const Batch& batch, const Variable& tokens, const Variable& positions) {
  check(batch, tokens, positions);
  const DType compute = tokens.dtype() == DType::bf16 ? DType::f32 : tokens.dtype();
  return dispatch_float("embedding", compute, [&](auto type) {
    using T = decltype(type);
    return tape.record("embedding", forward<T>(batch, tokens.value(), positions), {tokens, positions},
                       [ids = batch.ids, position_ids = batch.positions, token_target = tokens.target(),
                        position_target = positions.target()](const Tensor& dy) {
                         backward_table<T>(token_target, ids, dy);
                         backward_table<T>(position_target, position_ids, dy);
                       });
  });
}

}  // namespace longhaul::ops
