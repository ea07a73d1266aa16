#include "core/ops/add.h"

#include "core/ops/op_support.h"

namespace longhaul::ops {

namespace {

Tensor sum_of(const char* op, const Variable& a, const Variable& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) {
    throw internal_error("{}: {} {} and {} {} differ", op, name_of(a.dtype()), a.shape().text(), name_of(b.dtype()),
                         b.shape().text());
  }
  const Tensor sum = Tensor::empty(a.shape(), a.dtype());
  dispatch_float(op, a.dtype(), [&](auto type) {
    using T = decltype(type);
    kernels::add(kCpu, sum.data<T>(), a.value().data<T>(), b.value().data<T>(), sum.count());
  });
  return sum;
}

void halve(const Tensor& tensor) {
  dispatch_float("mean", tensor.dtype(), [&](auto type) {
    using T = decltype(type);
    kernels::scale(kCpu, tensor.data<T>(), T(0.5), tensor.count());
  });
}

}  // namespace

Variable add(Tape& tape, const Variable& a, const Variable& b) {
  return tape.record("add", sum_of("add", a, b), {a, b},
                     [a_target = a.target(), b_target = b.target()](const Tensor& dy) {
                       if (a_target.wanted()) a_target.give(dy);
                       if (b_target.wanted()) b_target.give(dy);
                     });
}

Variable add_scaled(Tape& tape, const Variable& sum, const Variable& x, double factor) {
  const double before = sum.defined() ? sum.value().item<double>() : 0.0;
  const Tensor result = Tensor::from<double>({1}, {before + factor * x.value().item<double>()});
  std::vector<Variable> inputs{x};
  if (sum.defined()) inputs.push_back(sum);
  return tape.record("add_scaled", result, inputs,
                     [sum_target = sum.target(), x_target = x.target(), factor](const Tensor& dy) {
                       if (sum_target.wanted()) sum_target.give(dy);
                       if (x_target.wanted()) x_target.give(Tensor::from<double>({1}, {factor * dy.item<double>()}));
                     });
}

Variable mean(Tape& tape, const Variable& a, const Variable& b) {
  const Tensor mean = sum_of("mean", a, b);
  halve(mean);
  return tape.record("mean", mean, {a, b}, [a_target = a.target(), b_target = b.target()](const Tensor& dy) {
    const Tensor half = dy.clone();
    halve(half);
    if (a_target.wanted()) a_target.give(half);
    if (b_target.wanted()) b_target.give(half);
  });
}

}  // namespace longhaul::ops
