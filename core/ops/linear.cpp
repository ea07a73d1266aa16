#include "core/ops/linear.h"

#include "core/ops/op_support.h"
#include "core/ops/times_transposed.h"
#include "kernels/matmul.h"

namespace longhaul::ops {
namespace {

void check(const Tensor& x, const Tensor& weight, const Variable& bias) {
  check_matrix("linear", "input", x);
  check_matrix("linear", "weight", weight);
  if (x.size(1) != weight.size(1)) {
    throw internal_error("linear: input {} does not go with weight {} ([out, in])", x.shape().text(),
                         weight.shape().text());
  }
  if (bias.defined()) check_vector("linear", "bias", bias.value(), weight.size(0), weight);
}

/// y = x W^T + b.
template <typename T>
Tensor forward(Tape::Mode mode, const Tensor& x, const Tensor& weight, const Variable& bias) {
  const int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
  const Tensor w = compute_value("linear", weight, x.dtype());
  const Tensor y = Tensor::empty({rows, out}, x.dtype());
  times_transposed<T>(mode, y.data<T>(), x.data<T>(), w.data<T>(), rows, out, in);
  if (bias.defined()) {
    const Tensor b = compute_value("linear", bias.value(), x.dtype());
    kernels::add_bias(kCpu, y.data<T>(), b.data<T>(), rows, out);
  }
  return y;
}

/// dx (+)= dy W, dW (+)= dy^T x, db (+)= column sums of dy.
template <typename T>
void backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const GradientTarget& x_target,
              const GradientTarget& weight_target, const GradientTarget& bias_target) {
  const int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
  if (bias_target.wanted()) {
    const GradientSink db = bias_target.sink();
    kernels::column_sum(kCpu, db.tensor.data<T>(), db.accumulate, dy.data<T>(), rows, out);
  }
  if (weight_target.wanted()) {
    const GradientSink dw = weight_target.sink();
    kernels::matmul<T>(kCpu, dw.tensor.data<T>(), in, {dy.data<T>(), out, true}, {x.data<T>(), in}, out, in, rows, T(1),
                       T(dw.accumulate));
  }
  if (x_target.wanted()) {
    const Tensor w = compute_value("linear", weight, x.dtype());
    const GradientSink dx = x_target.sink();
    kernels::matmul<T>(kCpu, dx.tensor.data<T>(), in, {dy.data<T>(), out}, {w.data<T>(), in}, rows, in, out, T(1),
                       T(dx.accumulate));
  }
}

}  // namespace

Variable linear(Tape& tape, const Variable& x, const Variable& weight, const Variable& bias) {
  check(x.value(), weight.value(), bias);
  return dispatch_float("linear", x.dtype(), [&](auto type) {
    using T = decltype(type);
    Tensor y = forward<T>(tape.mode(), x.value(), weight.value(), bias);
    return tape.record("linear", std::move(y), {x, weight, bias},
                       [x_value = x.value(), weight_value = weight.value(), x_target = x.target(),
                        weight_target = weight.target(), bias_target = bias.target()](const Tensor& dy) {
                         backward<T>(dy, x_value, weight_value, x_target, weight_target, bias_target);
                       });
  });
}

}  // namespace longhaul::ops
