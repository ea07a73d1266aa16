// What the ops share: shape checks, parameters as compute types, gradients written by kernels that cannot add.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/autograd/tape.h"
#include "kernels/pointwise.h"

namespace longhaul::ops {

inline constexpr kernels::Cpu kCpu{};

/// A matrix [rows, columns] with `columns` elements in its last axis; internal_error "op: ..." otherwise.
void check_columns(const char* op, const char* what, const Tensor& tensor, int64_t columns);
/// A matrix of rank 2; internal_error otherwise.
void check_matrix(const char* op, const char* what, const Tensor& tensor);
/// A vector [count]; internal_error naming it and `against` otherwise.
void check_vector(const char* op, const char* what, const Tensor& vector, int64_t count, const Tensor& against);
/// As many rows as the batch has tokens; internal_error otherwise.
void check_tokens(const char* op, const Tensor& tensor, int64_t tokens);

/// A parameter in the type the op computes in: itself, or a temporary f32 copy of a bf16 one. internal_error when the
/// types do not go together.
Tensor compute_value(const char* op, const Tensor& parameter, DType compute);

/// Gradient memory to write, for kernels whose outputs are never optional: the target's sink, or scratch when nobody
/// wants it.
GradientSink sink_or_scratch(const GradientTarget& target, const Shape& shape, DType dtype);

/// For kernels that treat the gradients of several parameters alike: does it add to them? Those that are new then start
/// from zero.
bool accumulate_together(std::initializer_list<const GradientSink*> sinks);

/// sink.tensor += contribution.
void add_contribution(const GradientSink& sink, const Tensor& contribution);

/// For kernels that overwrite: write(tensor) writes the gradient, which then reaches the target with one addition at
/// most.
template <typename Write>
void write_gradient(const GradientTarget& target, Write&& write) {
  if (!target.wanted()) return;
  const GradientSink sink = target.sink();
  if (!sink.accumulate) {
    write(sink.tensor);
    return;
  }
  const Tensor contribution = Tensor::empty(target.shape(), target.dtype());
  write(contribution);
  add_contribution(sink, contribution);
}

/// The same for gradients that one kernel overwrites together: write(tensors) gets one tensor for each target, scratch
/// where nobody wants it.
template <typename Write>
void write_gradients(const std::vector<GradientTarget>& targets, const std::vector<Shape>& shapes, DType dtype,
                     Write&& write) {
  std::vector<GradientSink> sinks;
  std::vector<Tensor> written;
  for (size_t i = 0; i < targets.size(); ++i) {
    sinks.push_back(sink_or_scratch(targets[i], shapes[i], dtype));
    written.push_back(sinks[i].accumulate ? Tensor::empty(shapes[i], dtype) : sinks[i].tensor);
  }
  write(written);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (sinks[i].accumulate) add_contribution(sinks[i], written[i]);
  }
}

}  // namespace longhaul::ops
