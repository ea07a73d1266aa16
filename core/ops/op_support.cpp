#include "core/ops/op_support.h"

#include <algorithm>

namespace longhaul::ops {

void check_matrix(const char* op, const char* what, const Tensor& tensor) {
  if (tensor.shape().rank() != 2) {
    throw internal_error("{}: {} has shape {}, expected [rows, columns]", op, what, tensor.shape().text());
  }
}

void check_columns(const char* op, const char* what, const Tensor& tensor, int64_t columns) {
  check_matrix(op, what, tensor);
  if (tensor.size(1) != columns) {
    throw internal_error("{}: {} has shape {}, expected [{}, {}]", op, what, tensor.shape().text(), tensor.size(0),
                         columns);
  }
}

void check_vector(const char* op, const char* what, const Tensor& vector, int64_t count, const Tensor& against) {
  if (!(vector.shape() == Shape{count})) {
    throw internal_error("{}: {} has shape {}, expected [{}] to go with {}", op, what, vector.shape().text(), count,
                         against.shape().text());
  }
}

void check_tokens(const char* op, const Tensor& tensor, int64_t tokens) {
  check_matrix(op, "input", tensor);
  if (tensor.size(0) != tokens) {
    throw internal_error("{}: input has shape {}, expected one row for each of the batch's {} tokens", op,
                         tensor.shape().text(), tokens);
  }
}

Tensor compute_value(const char* op, const Tensor& parameter, DType compute) {
  if (parameter.dtype() == compute) return parameter;
  if (parameter.dtype() == DType::bf16 && compute == DType::f32) return parameter.to(DType::f32);
  throw internal_error("{}: parameter {} holds {}, the input {}", op, parameter.shape().text(),
                       name_of(parameter.dtype()), name_of(compute));
}

GradientSink sink_or_scratch(const GradientTarget& target, const Shape& shape, DType dtype) {
  if (target.wanted()) return target.sink();
  return {Tensor::empty(shape, dtype), false};
}

bool accumulate_together(std::initializer_list<const GradientSink*> sinks) {
  const bool accumulate = std::ranges::any_of(sinks, [](const GradientSink* sink) { return sink->accumulate; });
  for (const GradientSink* sink : sinks) {
    if (accumulate && !sink->accumulate) sink->tensor.zero();
  }
  return accumulate;
}

void add_contribution(const GradientSink& sink, const Tensor& contribution) {
  dispatch_float("gradient", contribution.dtype(), [&](auto type) {
    using T = decltype(type);
    kernels::add(kCpu, sink.tensor.data<T>(), sink.tensor.data<T>(), contribution.data<T>(), contribution.count());
  });
}

}  // namespace longhaul::ops
