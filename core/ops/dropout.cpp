#include "core/ops/dropout.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/ops/op_support.h"

namespace longhaul::ops {

Variable dropout(Tape& tape, const Variable& x, double probability, kernels::RandomKey key, const Batch& batch) {
  if (!(probability >= 0 && probability < 1)) {
    throw internal_error("dropout: probability {} is outside [0, 1)", probability);
  }
  check_tokens("dropout", x.value(), batch.tokens());
  if (probability == 0) return x;
  return dispatch_float("dropout", x.dtype(), [&](auto type) {
    using T = decltype(type);
    const int64_t length = batch.length();
    auto apply = [probability, key, samples = batch.sample_ids, length](const Tensor& to, const Tensor& from) {
      kernels::dropout<T>(kCpu, to.data<T>(), from.data<T>(), probability, key, samples.data(), from.size(0), length,
                          from.size(1));
    };
    const Tensor y = Tensor::empty(x.shape(), x.dtype());
    apply(y, x.value());
    return tape.record("dropout", y, {x}, [apply, target = x.target()](const Tensor& dy) {
      write_gradient(target, [&](const Tensor& dx) { apply(dx, dy); });
    });
  });
}

}  // namespace longhaul::ops
