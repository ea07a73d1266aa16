#include "kernels/activation.h"

#include "core/ops/activation.h"
#include "core/ops/op_support.h"

namespace longhaul::ops {
namespace {

template <typename T>
const T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

template <typename T>
void bias_gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& bias, const GradientTarget& x_target,
                        const GradientTarget& bias_target) {
  const int64_t rows = x.size(0), columns = x.size(1);
  const Tensor b = bias.defined() ? compute_value("bias_gelu", bias, x.dtype()) : Tensor();
  const Tensor dx = Tensor::empty(x.shape(), x.dtype());
  kernels::bias_gelu_backward<T>(kCpu, dx.data<T>(), dy.data<T>(), x.data<T>(), data_or_null<T>(b), rows, columns);
  if (bias_target.wanted()) {
    const GradientSink dbias = bias_target.sink();
    kernels::column_sum(kCpu, dbias.tensor.data<T>(), dbias.accumulate, dx.data<T>(), rows, columns);
  }
  if (x_target.wanted()) x_target.give(dx);
}

}  // namespace

Variable bias_gelu(Tape& tape, const Variable& x, const Variable& bias) {
  const Tensor& input = x.value();
  check_matrix("bias_gelu", "input", input);
  if (bias.defined()) check_vector("bias_gelu", "bias", bias.value(), input.size(1), input);
  return dispatch_float("bias_gelu", x.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor bias_value = bias.defined() ? bias.value() : Tensor();
    const Tensor b = bias.defined() ? compute_value("bias_gelu", bias_value, x.dtype()) : Tensor();
    const Tensor y = Tensor::empty(input.shape(), x.dtype());
    kernels::bias_gelu_forward<T>(kCpu, y.data<T>(), input.data<T>(), data_or_null<T>(b), input.size(0), input.size(1));
    return tape.record("bias_gelu", y, {x, bias},
                       [input, bias_value, x_target = x.target(), bias_target = bias.target()](const Tensor& dy) {
                         bias_gelu_backward<T>(dy, input, bias_value, x_target, bias_target);
                       });
  });
}

Variable swiglu(Tape& tape, const Variable& gate_up) {
  const Tensor& input = gate_up.value();
  check_matrix("swiglu", "input", input);
  if (input.size(1) % 2 != 0) {
    throw internal_error("swiglu: input has shape {}, expected [rows, 2 * columns]", input.shape().text());
  }
  return dispatch_float("swiglu", gate_up.dtype(), [&](auto type) {
    using T = decltype(type);
    const int64_t rows = input.size(0), columns = input.size(1) / 2;
    const Tensor y = Tensor::empty({rows, columns}, gate_up.dtype());
    kernels::swiglu_forward<T>(kCpu, y.data<T>(), input.data<T>(), rows, columns);
    return tape.record("swiglu", y, {gate_up}, [input, rows, columns, target = gate_up.target()](const Tensor& dy) {
      write_gradient(target, [&](const Tensor& gradient) {
        kernels::swiglu_backward<T>(kCpu, gradient.data<T>(), dy.data<T>(), input.data<T>(), rows, columns);
      });
    });
  });
}

}  // namespace longhaul::ops
