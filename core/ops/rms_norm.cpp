#include "core/ops/rms_norm.h"

#include "core/ops/op_support.h"
#include "kernels/rms_norm.h"

namespace longhaul::ops {
namespace {

template <typename T>
void backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
              const GradientTarget& x_target, const GradientTarget& weight_target) {
  const Tensor w = compute_value("rms_norm", weight, x.dtype());
  const GradientSink dx = sink_or_scratch(x_target, x.shape(), x.dtype());
  const GradientSink dweight = sink_or_scratch(weight_target, w.shape(), x.dtype());
  kernels::rms_norm_backward<T>(kCpu, dx.tensor.data<T>(), dx.accumulate, dweight.tensor.data<T>(), dweight.accumulate,
                                dy.data<T>(), x.data<T>(), w.data<T>(), rstd.data<T>(), x.size(0), x.size(1));
}

}  // namespace

Variable rms_norm(Tape& tape, const Variable& x, const Variable& weight, double epsilon) {
  const Tensor& input = x.value();
  check_matrix("rms_norm", "input", input);
  const int64_t rows = input.size(0), columns = input.size(1);
  check_vector("rms_norm", "weight", weight.value(), columns, input);
  return dispatch_float("rms_norm", x.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor w = compute_value("rms_norm", weight.value(), x.dtype());
    const Tensor y = Tensor::empty(input.shape(), x.dtype());
    const Tensor rstd = Tensor::empty({rows}, x.dtype());
    kernels::rms_norm_forward<T>(kCpu, y.data<T>(), rstd.data<T>(), input.data<T>(), w.data<T>(), rows, columns,
                                 epsilon);
    return tape.record(
        "rms_norm", y, {x, weight},
        [input, weight_value = weight.value(), rstd, x_target = x.target(), weight_target = weight.target()](
            const Tensor& dy) { backward<T>(dy, input, weight_value, rstd, x_target, weight_target); });
  });
}

}  // namespace longhaul::ops
