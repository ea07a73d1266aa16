#include "core/ops/add.h"

#include "core/ops/op_support.h"

namespace longhaul::ops {

Variable add(Tape& tape, const Variable& a, const Variable& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) {
    throw internal_error("add: {} {} and {} {} differ", name_of(a.dtype()), a.shape().text(), name_of(b.dtype()),
                         b.shape().text());
  }
  const Tensor sum = Tensor::empty(a.shape(), a.dtype());
  dispatch_float("add", a.dtype(), [&](auto type) {
    using T = decltype(type);
    kernels::add(kCpu, sum.data<T>(), a.value().data<T>(), b.value().data<T>(), sum.count());
  });
  return tape.record("add", sum, {a, b}, [a_target = a.target(), b_target = b.target()](const Tensor& dy) {
    if (a_target.wanted()) a_target.give(dy);
    if (b_target.wanted()) b_target.give(dy);
  });
}

}  // namespace longhaul::ops
