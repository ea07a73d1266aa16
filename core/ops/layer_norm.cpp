#include "core/ops/layer_norm.h"

#include "core/ops/op_support.h"
#include "kernels/layer_norm.h"

namespace longhaul::ops {
namespace {

/// What the backward pass reads.
struct Saved {
  Tensor x, weight, mean, rstd;
};

template <typename T>
void backward(const Tensor& dy, const Saved& saved, const GradientTarget& x_target, const GradientTarget& weight_target,
              const GradientTarget& bias_target) {
  const DType dtype = dtype_of<T>;
  const Tensor weight = compute_value("layer_norm", saved.weight, dtype);
  const GradientSink dx = sink_or_scratch(x_target, saved.x.shape(), dtype);
  const GradientSink dweight = sink_or_scratch(weight_target, weight.shape(), dtype);
  const GradientSink dbias = sink_or_scratch(bias_target, weight.shape(), dtype);
  const bool accumulate = accumulate_together({&dweight, &dbias});
  kernels::layer_norm_backward<T>(kCpu, dx.tensor.data<T>(), dx.accumulate, dweight.tensor.data<T>(),
                                  dbias.tensor.data<T>(), accumulate, dy.data<T>(), saved.x.data<T>(), weight.data<T>(),
                                  saved.mean.data<T>(), saved.rstd.data<T>(), saved.x.size(0), saved.x.size(1));
}

}  // namespace

Variable layer_norm(Tape& tape, const Variable& x, const Variable& weight, const Variable& bias, double epsilon) {
  const Tensor& input = x.value();
  check_matrix("layer_norm", "input", input);
  const int64_t rows = input.size(0), columns = input.size(1);
  check_vector("layer_norm", "weight", weight.value(), columns, input);
  check_vector("layer_norm", "bias", bias.value(), columns, input);
  return dispatch_float("layer_norm", x.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor w = compute_value("layer_norm", weight.value(), x.dtype());
    const Tensor b = compute_value("layer_norm", bias.value(), x.dtype());
    const Tensor y = Tensor::empty(input.shape(), x.dtype());
    const Saved saved{input, weight.value(), Tensor::empty({rows}, x.dtype()), Tensor::empty({rows}, x.dtype())};
    kernels::layer_norm_forward<T>(kCpu, y.data<T>(), saved.mean.data<T>(), saved.rstd.data<T>(), input.data<T>(),
                                   w.data<T>(), b.data<T>(), rows, columns, epsilon);
    return tape.record("layer_norm", y, {x, weight, bias},
                       [saved, x_target = x.target(), weight_target = weight.target(), bias_target = bias.target()](
                           const Tensor& dy) { backward<T>(dy, saved, x_target, weight_target, bias_target); });
  });
}

}  // namespace longhaul::ops
