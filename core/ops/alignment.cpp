#include "core/ops/alignment.h"

#include "core/ops/op_support.h"
#include "kernels/matmul.h"
#include "kernels/rpa_basis.h"
#include "kernels/sinkhorn.h"

namespace longhaul::ops {
namespace {

void check(const Tensor& mean_memberships, const Tensor& basis) {
  check_matrix("alignment", "mean_memberships", mean_memberships);
  check_matrix("alignment", "basis", basis);
  if (mean_memberships.size(0) != basis.size(0)) {
    throw internal_error("alignment: mean_memberships {} do not go with basis {}: another length",
                         mean_memberships.shape().text(), basis.shape().text());
  }
}

/// What the backward pass reads: the basis, the scores [R, K], and what Sinkhorn left.
struct Saved {
  Tensor basis, scores, steps;
  AlignmentOptions options;
};

/// dmean_memberships (+)= basis dscores^T.
template <typename T>
void backward(const Tensor& dprojection, const Saved& saved, const GradientTarget& target) {
  const int64_t length = saved.basis.size(0), regimes = saved.scores.size(0), functions = saved.scores.size(1);
  const Tensor dscores = Tensor::empty(saved.scores.shape(), saved.scores.dtype());
  kernels::sinkhorn_backward<T>(kCpu, dscores.data<T>(), false, dprojection.data<T>(), saved.steps.data<double>(),
                                saved.scores.data<T>(), saved.options.temperature, saved.options.iterations, regimes,
                                functions);
  const GradientSink dmean = target.sink();
  kernels::matmul<T>(kCpu, dmean.tensor.data<T>(), regimes, {saved.basis.data<T>(), functions},
                     {dscores.data<T>(), functions, true}, length, regimes, functions, T(1), T(dmean.accumulate));
}

}  // namespace

Tensor rpa_basis(int64_t length, int64_t count, DType dtype) {
  return dispatch_float("rpa_basis", dtype, [&](auto type) {
    using T = decltype(type);
    const Tensor basis = Tensor::empty({length, count}, dtype);
    kernels::rpa_basis<T>(kCpu, basis.data<T>(), length, count);
    return basis;
  });
}

Variable alignment(Tape& tape, const Variable& mean_memberships, const Tensor& basis, const AlignmentOptions& options) {
  const Tensor& mean = mean_memberships.value();
  check(mean, basis);
  const int64_t length = mean.size(0), regimes = mean.size(1), functions = basis.size(1);
  return dispatch_float("alignment", mean.dtype(), [&](auto type) {
    using T = decltype(type);
    const Saved saved{basis, Tensor::empty({regimes, functions}, mean.dtype()),
                      Tensor::empty({2 * options.iterations, regimes, functions}, DType::f64), options};
    kernels::matmul<T>(kCpu, saved.scores.data<T>(), functions, {mean.data<T>(), regimes, true},
                       {basis.data<T>(), functions}, regimes, functions, length, T(1), T(0));
    const Tensor projection = Tensor::empty({regimes, functions}, mean.dtype());
    kernels::sinkhorn_forward<T>(kCpu, projection.data<T>(), saved.steps.data<double>(), saved.scores.data<T>(),
                                 options.temperature, options.iterations, regimes, functions);
    if (options.detach) return Variable(projection);
    return tape.record("alignment", projection, {mean_memberships},
                       [saved, target = mean_memberships.target()](const Tensor& dprojection) {
                         backward<T>(dprojection, saved, target);
                       });
  });
}

}  // namespace longhaul::ops
