#include "core/ops/memberships.h"

#include "core/ops/op_support.h"
#include "kernels/memberships.h"

namespace longhaul::ops {
namespace {

/// What the backward pass of memberships reads.
struct Saved {
  Tensor z, centres, log_sigma, memberships, square;
};

template <typename T>
void backward(const Tensor& dmemberships, const Saved& saved, const GradientTarget& z_target,
              const GradientTarget& centres_target, const GradientTarget& log_sigma_target) {
  const DType dtype = dtype_of<T>;
  const Tensor centres = compute_value("memberships", saved.centres, dtype);
  const Tensor log_sigma = compute_value("memberships", saved.log_sigma, dtype);
  const GradientSink dz = sink_or_scratch(z_target, saved.z.shape(), dtype);
  const GradientSink dcentres = sink_or_scratch(centres_target, centres.shape(), dtype);
  const GradientSink dlog_sigma = sink_or_scratch(log_sigma_target, log_sigma.shape(), dtype);
  const bool accumulate = accumulate_together({&dcentres, &dlog_sigma});
  const Tensor dsquare = Tensor::empty(saved.square.shape(), dtype);
  kernels::memberships_backward<T>(
      kCpu, dz.tensor.data<T>(), dz.accumulate, dcentres.tensor.data<T>(), dlog_sigma.tensor.data<T>(), accumulate,
      dsquare.data<T>(), dmemberships.data<T>(), saved.memberships.data<T>(), saved.square.data<T>(), saved.z.data<T>(),
      centres.data<T>(), log_sigma.data<T>(), saved.z.size(0), centres.size(0), centres.size(1));
}

}  // namespace

Variable memberships(Tape& tape, const Variable& z, const Variable& centres, const Variable& log_sigma) {
  check_matrix("memberships", "input", z.value());
  const int64_t tokens = z.value().size(0), columns = z.value().size(1);
  check_columns("memberships", "centres", centres.value(), columns);
  const int64_t regimes = centres.value().size(0);
  check_vector("memberships", "log_sigma", log_sigma.value(), regimes, centres.value());
  return dispatch_float("memberships", z.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor c = compute_value("memberships", centres.value(), z.dtype());
    const Tensor s = compute_value("memberships", log_sigma.value(), z.dtype());
    const Saved saved{z.value(), centres.value(), log_sigma.value(), Tensor::empty({tokens, regimes}, z.dtype()),
                      Tensor::empty({tokens, regimes}, z.dtype())};
    kernels::memberships_forward<T>(kCpu, saved.memberships.data<T>(), saved.square.data<T>(), saved.z.data<T>(),
                                    c.data<T>(), s.data<T>(), tokens, regimes, columns);
    return tape.record("memberships", saved.memberships, {z, centres, log_sigma},
                       [saved, z_target = z.target(), centres_target = centres.target(),
                        log_sigma_target = log_sigma.target()](const Tensor& dmemberships) {
                         backward<T>(dmemberships, saved, z_target, centres_target, log_sigma_target);
                       });
  });
}

Variable batch_mean(Tape& tape, const Variable& x, const Batch& batch) {
  check_tokens("batch_mean", x.value(), batch.tokens());
  const int64_t rows = batch.rows(), length = batch.length(), columns = x.value().size(1);
  return dispatch_float("batch_mean", x.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor mean = Tensor::empty({length, columns}, x.dtype());
    kernels::batch_mean_forward<T>(kCpu, mean.data<T>(), x.value().data<T>(), rows, length, columns);
    return tape.record("batch_mean", mean, {x}, [=, target = x.target()](const Tensor& dmean) {
      const GradientSink dx = target.sink();
      kernels::batch_mean_backward<T>(kCpu, dx.tensor.data<T>(), dx.accumulate, dmean.data<T>(), rows, length, columns);
    });
  });
}

}  // namespace longhaul::ops
