#include "core/ops/length_prior.h"

#include <cmath>

#include "core/ops/op_support.h"

namespace longhaul::ops {
namespace {

void check(const LengthPrior& prior, int64_t length) {
  const Tensor &mean = prior.mean_memberships.value(), &alignment = prior.alignment.value();
  check_matrix("attention", "mean_memberships", mean);
  check_matrix("attention", "alignment", alignment);
  check_matrix("attention", "basis", prior.basis);
  check_vector("attention", "pos_beta", prior.pos_beta.value(), 1, mean);
  if (mean.size(1) != alignment.size(0) || !(prior.basis.shape() == Shape{mean.size(0), alignment.size(1)})) {
    throw internal_error(
        "attention: mean_memberships {}, alignment {} and basis {} do not go together ([T, R], [R, K], "
        "[T, K])",
        mean.shape().text(), alignment.shape().text(), prior.basis.shape().text());
  }
  if (mean.size(0) < length) {
    throw internal_error("attention: mean_memberships {} are too short for rows of {} tokens", mean.shape().text(),
                         length);
  }
}

double number_of(const Tensor& pos_beta, DType dtype) {
  return dispatch_float("attention", dtype, [&](auto type) {
    return static_cast<double>(compute_value("attention", pos_beta, dtype).item<decltype(type)>());
  });
}

}  // namespace

PriorFactors::PriorFactors(const LengthPrior& prior, int64_t length, DType dtype)
    : settings_(prior.settings),
      mean_memberships_(prior.mean_memberships.value()),
      alignment_(prior.alignment.value()),
      basis_(prior.basis),
      mean_memberships_target_(prior.mean_memberships.target()),
      alignment_target_(prior.alignment.target()),
      pos_beta_target_(prior.pos_beta.target()),
      score_temperature_(prior.score_temperature) {
  check(prior, length);
  shape_ = {.length = basis_.size(0), .regimes = alignment_.size(0), .functions = alignment_.size(1)};
  const double pos_beta = number_of(prior.pos_beta.value(), dtype);
  pos_beta_free_ = !(pos_beta < 0);
  settings_.pos_beta = pos_beta_free_ ? pos_beta : 0.0;
  query_ = Tensor::empty({shape_.length, shape_.functions + 1}, dtype);
  key_ = Tensor::empty(query_.shape(), dtype);
  dispatch_float("attention", dtype, [&](auto type) {
    using T = decltype(type);
    kernels::attention_prior_forward<T>(kCpu, query_.data<T>(), key_.data<T>(), mean_memberships_.data<T>(),
                                        alignment_.data<T>(), basis_.data<T>(), shape_, settings_);
  });
}

template <typename T>
kernels::AttentionPrior<T> PriorFactors::view() const {
  if (!query_.defined()) return {};
  return {.length = shape_.length,
          .rank = shape_.functions,
          .query = query_.data<T>(),
          .key = key_.data<T>(),
          .limit = settings_.clip * settings_.warm};
}

double PriorFactors::score_scale(int64_t head_size) const {
  return 1 / (std::sqrt(static_cast<double>(head_size)) * score_temperature_);
}

bool PriorFactors::wanted() const {
  return mean_memberships_target_.wanted() || alignment_target_.wanted() || pos_beta_target_.wanted();
}

PriorSums PriorFactors::make_sums(int64_t queries, int64_t heads) const {
  if (!wanted()) return {};
  const int64_t width = shape_.functions + 2;
  return {Tensor::zeros({shape_.length, width}, DType::f64), Tensor::empty({queries * heads, width}, query_.dtype())};
}

template <typename T>
void PriorFactors::backward(const PriorSums& left) const {
  if (!left.sums.defined()) return;
  const GradientSink dmean = sink_or_scratch(mean_memberships_target_, mean_memberships_.shape(), dtype_of<T>);
  const GradientSink dalignment = sink_or_scratch(alignment_target_, alignment_.shape(), dtype_of<T>);
  double dpos_beta = 0;
  kernels::attention_prior_backward<T>(kCpu, dmean.tensor.data<T>(), dmean.accumulate, dalignment.tensor.data<T>(),
                                       dalignment.accumulate, &dpos_beta, false, left.sums.data<double>(),
                                       mean_memberships_.data<T>(), alignment_.data<T>(), basis_.data<T>(), shape_,
                                       settings_);
  if (!pos_beta_target_.wanted()) return;
  const GradientSink sink = pos_beta_target_.sink();
  T& target = *sink.tensor.data<T>();
  target = static_cast<T>((sink.accumulate ? static_cast<double>(target) : 0.0) + (pos_beta_free_ ? dpos_beta : 0.0));
}

#define LONGHAUL_INSTANTIATE(T)                                   \
  template kernels::AttentionPrior<T> PriorFactors::view() const; \
  template void PriorFactors::backward<T>(const PriorSums&) const;
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::ops
