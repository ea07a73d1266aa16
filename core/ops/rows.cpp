#include "core/ops/rows.h"

#include "core/ops/op_support.h"
#include "kernels/rows.h"

namespace longhaul::ops {
namespace {

template <typename T>
void gated_backward(const Tensor& dy, const Tensor& update, const Tensor& alpha, const Tensor& raw, const Tensor& rows,
                    const GradientTarget& update_target, const GradientTarget& raw_target) {
  const GradientSink dupdate = sink_or_scratch(update_target, update.shape(), update.dtype());
  const GradientSink draw = sink_or_scratch(raw_target, raw.shape(), update.dtype());
  kernels::gated_rows_backward<T>(kCpu, dupdate.tensor.data<T>(), dupdate.accumulate, draw.tensor.data<T>(),
                                  draw.accumulate, dy.data<T>(), update.data<T>(), alpha.data<T>(), raw.data<T>(),
                                  rows.data<int32_t>(), rows.count(), update.size(1));
}

}  // namespace

void check_rows(const char* op, const Tensor& rows, int64_t limit) {
  const std::span<const int32_t> numbers = rows.span<int32_t>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0 || numbers[i] >= limit) {
      throw internal_error("{}: row {} at index {} is outside 0..{}", op, numbers[i], i, limit - 1);
    }
    if (i > 0 && numbers[i] < numbers[i - 1]) {
      throw internal_error("{}: row {} at index {} comes after row {}; rows must rise", op, numbers[i], i,
                           numbers[i - 1]);
    }
  }
}

Variable gather_rows(Tape& tape, const Variable& x, const Tensor& rows) {
  check_matrix("gather_rows", "input", x.value());
  check_rows("gather_rows", rows, x.shape()[0]);
  return dispatch_float("gather_rows", x.dtype(), [&](auto type) {
    using T = decltype(type);
    const int64_t n = x.shape()[0], columns = x.shape()[1];
    const Tensor y = Tensor::empty({rows.count(), columns}, x.dtype());
    kernels::gather_rows<T>(kCpu, y.data<T>(), x.value().data<T>(), rows.data<int32_t>(), rows.count(), columns);
    return tape.record("gather_rows", y, {x}, [rows, n, columns, target = x.target()](const Tensor& dy) {
      if (!target.wanted()) return;
      const GradientSink dx = target.sink();
      kernels::scatter_rows<T>(kCpu, dx.tensor.data<T>(), dx.accumulate, dy.data<T>(), rows.data<int32_t>(),
                               rows.count(), n, columns);
    });
  });
}

Variable add_gated_rows(Tape& tape, const Variable& h, const Variable& update, const Variable& raw_alpha,
                        const Tensor& rows) {
  check_matrix("add_gated_rows", "h", h.value());
  const int64_t n = h.shape()[0], columns = h.shape()[1];
  if (!(update.shape() == Shape{rows.count(), columns}) || update.dtype() != h.dtype()) {
    throw internal_error("add_gated_rows: update {} {} does not go with h {} {} and {} rows", name_of(update.dtype()),
                         update.shape().text(), name_of(h.dtype()), h.shape().text(), rows.count());
  }
  check_vector("add_gated_rows", "raw_alpha", raw_alpha.value(), columns, h.value());
  check_rows("add_gated_rows", rows, n);
  return dispatch_float("add_gated_rows", h.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor raw = compute_value("add_gated_rows", raw_alpha.value(), h.dtype());
    const Tensor alpha = Tensor::empty({columns}, h.dtype()), y = Tensor::empty(h.shape(), h.dtype());
    kernels::channel_gate<T>(kCpu, alpha.data<T>(), raw.data<T>(), columns);
    kernels::gated_rows_forward<T>(kCpu, y.data<T>(), h.value().data<T>(), update.value().data<T>(), alpha.data<T>(),
                                   rows.data<int32_t>(), rows.count(), n, columns);
    return tape.record("add_gated_rows", y, {h, update, raw_alpha},
                       [update_value = update.value(), alpha, raw, rows, h_target = h.target(),
                        update_target = update.target(), raw_target = raw_alpha.target()](const Tensor& dy) {
                         gated_backward<T>(dy, update_value, alpha, raw, rows, update_target, raw_target);
                         if (h_target.wanted()) h_target.give(dy);
                       });
  });
}

}  // namespace longhaul::ops
