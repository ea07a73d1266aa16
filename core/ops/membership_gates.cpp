#include "core/ops/membership_gates.h"

#include <algorithm>
#include <cmath>

#include "core/ops/op_support.h"
#include "kernels/membership_gates.h"

namespace longhaul::ops {
namespace {

constexpr double kSaturated = 0.9;

/// Pointer and whether to add, for a kernel that leaves out what is null.
template <typename T>
struct OptionalGradient {
  GradientSink sink;
  T* data = nullptr;

  explicit OptionalGradient(const GradientTarget& target) {
    if (!target.wanted()) return;
    sink = target.sink();
    data = sink.tensor.data<T>();
  }
};

template <typename T>
void gate_backward(const Tensor& dy, const Tensor& x, const Tensor& gate, const Tensor& memberships,
                   const Tensor& weight, const GradientTarget& x_target, const GradientTarget& memberships_target,
                   const GradientTarget& weight_target) {
  const OptionalGradient<T> dx(x_target), dmemberships(memberships_target), dweight(weight_target);
  const Tensor dscore = Tensor::empty(gate.shape(), gate.dtype());
  kernels::membership_gate_backward<T>(
      kCpu, dx.data, dx.sink.accumulate, dmemberships.data, dmemberships.sink.accumulate, dweight.data,
      dweight.sink.accumulate, dscore.data<T>(), dy.data<T>(), x.data<T>(), gate.data<T>(), memberships.data<T>(),
      weight.data<T>(), x.size(0), memberships.size(1), x.size(1));
}

/// What the backward pass of a document's gate reads.
struct SavedDocumentGate {
  Tensor x, weight, gate, sigmoids, means;
  std::vector<kernels::GatedDocument> documents;

  kernels::DocumentGateShape shape() const {
    return {documents.data(), static_cast<int64_t>(documents.size()), weight.size(1), weight.size(0), x.size(1)};
  }
};

template <typename T>
void document_gate_backward(const Tensor& dy, const SavedDocumentGate& saved, const GradientTarget& x_target,
                            const GradientTarget& memberships_target, const GradientTarget& weight_target) {
  const OptionalGradient<T> dx(x_target), dmemberships(memberships_target), dweight(weight_target);
  if (dmemberships.data != nullptr && !dmemberships.sink.accumulate) dmemberships.sink.tensor.zero();
  const Tensor dgate = Tensor::empty({saved.x.size(0)}, DType::f64);
  kernels::document_gate_backward<T>(kCpu, dx.data, dx.sink.accumulate, dmemberships.data, true, dweight.data,
                                     dweight.sink.accumulate, dgate.data<double>(), dy.data<T>(), saved.x.data<T>(),
                                     saved.gate.data<double>(), saved.sigmoids.data<double>(),
                                     saved.means.data<double>(), saved.weight.data<T>(), saved.shape());
}

void check_targets(const char* op, const Tensor& memberships, const Tensor& targets) {
  check_matrix(op, "memberships", memberships);
  if (memberships.size(0) != targets.count())
    throw internal_error("{}: memberships {} do not go with targets {}", op, memberships.shape().text(),
                         targets.shape().text());
}

}  // namespace

Variable scale_rows_by_gate(Tape& tape, const Variable& x, const Variable& memberships, const Variable& weight) {
  constexpr const char* kName = "scale_rows_by_gate";
  check_matrix(kName, "input", x.value());
  check_matrix(kName, "memberships", memberships.value());
  const int64_t tokens = x.shape()[0], columns = x.shape()[1], regimes = memberships.shape()[1];
  if (memberships.shape()[0] != tokens || memberships.dtype() != x.dtype())
    throw internal_error("{}: memberships {} {} do not go with the input {} {}", kName, name_of(memberships.dtype()),
                         memberships.shape().text(), name_of(x.dtype()), x.shape().text());
  check_vector(kName, "weight", weight.value(), regimes, memberships.value());
  return dispatch_float(kName, x.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor w = compute_value(kName, weight.value(), x.dtype());
    const Tensor y = Tensor::empty(x.shape(), x.dtype()), gate = Tensor::empty({tokens}, x.dtype());
    kernels::membership_gate_forward<T>(kCpu, y.data<T>(), gate.data<T>(), x.value().data<T>(),
                                        memberships.value().data<T>(), w.data<T>(), tokens, regimes, columns);
    return tape.record(kName, y, {x, memberships, weight},
                       [x_value = x.value(), gate, m = memberships.value(), w, x_target = x.target(),
                        m_target = memberships.target(), w_target = weight.target()](const Tensor& dy) {
                         gate_backward<T>(dy, x_value, gate, m, w, x_target, m_target, w_target);
                       });
  });
}

std::vector<kernels::GatedDocument> gated_documents(const Batch& batch) {
  std::vector<kernels::GatedDocument> documents;
  const std::span<const int32_t> starts = batch.document_start.span<int32_t>();
  for (int64_t token = 0; token < batch.tokens(); ++token) {
    const size_t at = static_cast<size_t>(token);
    const bool first = token % batch.length() == 0 || starts[at] != starts[at - 1];
    if (first) documents.push_back({token, token, token, token});
    documents.back().end = documents.back().pool_end = token + 1;
  }
  return documents;
}

std::vector<kernels::GatedDocument> gated_by_one_pool(int64_t tokens, int64_t pool) { return {{0, tokens, 0, pool}}; }

Variable scale_documents_by_gate(Tape& tape, const Variable& x, const Variable& memberships, const Variable& weight,
                                 std::vector<kernels::GatedDocument> documents) {
  constexpr const char* kName = "scale_documents_by_gate";
  check_matrix(kName, "input", x.value());
  check_matrix(kName, "memberships", memberships.value());
  check_columns(kName, "weight", weight.value(), memberships.shape()[1]);
  const int64_t covered = documents.empty() ? 0 : documents.back().end;
  const int64_t pool = documents.empty() ? 0 : documents.back().pool_end;
  if (covered != x.shape()[0] || pool > memberships.shape()[0] || memberships.dtype() != x.dtype())
    throw internal_error("{}: documents of {} tokens from {} memberships do not go with the input {} {} and {} {}",
                         kName, covered, pool, name_of(x.dtype()), x.shape().text(), name_of(memberships.dtype()),
                         memberships.shape().text());
  return dispatch_float(kName, x.dtype(), [&](auto type) {
    using T = decltype(type);
    const int64_t count = static_cast<int64_t>(documents.size());
    SavedDocumentGate saved{
        x.value(), compute_value(kName, weight.value(), x.dtype()), Tensor(), Tensor(), Tensor(), std::move(documents)};
    saved.gate = Tensor::empty({count}, DType::f64);
    saved.sigmoids = Tensor::empty({count, saved.weight.size(0)}, DType::f64);
    saved.means = Tensor::empty({count, saved.weight.size(1)}, DType::f64);
    const Tensor y = Tensor::empty(x.shape(), x.dtype());
    kernels::document_gate_forward<T>(kCpu, y.data<T>(), saved.gate.data<double>(), saved.sigmoids.data<double>(),
                                      saved.means.data<double>(), x.value().data<T>(), memberships.value().data<T>(),
                                      saved.weight.data<T>(), saved.shape());
    return tape.record(
        kName, y, {x, memberships, weight},
        [saved = std::move(saved), x_target = x.target(), m_target = memberships.target(), w_target = weight.target()](
            const Tensor& dy) { document_gate_backward<T>(dy, saved, x_target, m_target, w_target); });
  });
}

Variable membership_entropy_floor(Tape& tape, const Variable& memberships, const Tensor& targets, double share) {
  constexpr const char* kName = "membership_entropy_floor";
  check_targets(kName, memberships.value(), targets);
  if (!(share >= 0 && share <= 1)) throw internal_error("{}: share {} is outside [0, 1]", kName, share);
  return dispatch_float(kName, memberships.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor m = memberships.value(), sum = Tensor::empty({1}, DType::f64);
    const int64_t tokens = m.size(0), regimes = m.size(1);
    *sum.data<double>() =
        kernels::entropy_floor_forward<T>(kCpu, m.data<T>(), targets.data<int32_t>(), share, tokens, regimes);
    return tape.record(kName, sum, {memberships}, [=, target = memberships.target()](const Tensor& dsum) {
      if (!target.wanted()) return;
      const GradientSink dm = target.sink();
      kernels::entropy_floor_backward<T>(kCpu, dm.tensor.data<T>(), dm.accumulate, dsum.item<double>(), m.data<T>(),
                                         targets.data<int32_t>(), share, tokens, regimes);
    });
  });
}

void MembershipStatistics::add(const MembershipStatistics& other) {
  if (regimes != 0 && other.regimes != 0 && regimes != other.regimes)
    throw internal_error("membership_statistics: {} and {} regimes cannot be added", regimes, other.regimes);
  regimes = std::max(regimes, other.regimes);
  tokens += other.tokens;
  saturated += other.saturated;
  entropy += other.entropy;
  for (size_t r = 0; r < sums.size(); ++r) sums[r] += other.sums[r];
}

double MembershipStatistics::saturation() const {
  return tokens == 0 ? 0 : static_cast<double>(saturated) / static_cast<double>(tokens);
}

double MembershipStatistics::relative_entropy() const {
  if (tokens == 0) return 0;
  if (regimes == 1) return 1;
  return entropy / static_cast<double>(tokens) / std::log(static_cast<double>(regimes));
}

double MembershipStatistics::collapse() const {
  return tokens == 0 ? 0 : *std::max_element(sums.begin(), sums.end()) / static_cast<double>(tokens);
}

MembershipStatistics membership_statistics(const Tensor& memberships, const Tensor& targets) {
  check_targets("membership_statistics", memberships, targets);
  MembershipStatistics result;
  result.regimes = memberships.size(1);
  if (result.regimes < 1 || result.regimes > kernels::kMaxRegimes)
    throw internal_error("membership_statistics: memberships {} have more than {} regimes or none",
                         memberships.shape().text(), kernels::kMaxRegimes);
  dispatch_float("membership_statistics", memberships.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t t = 0; t < memberships.size(0); ++t) {
      if (targets.data<int32_t>()[t] < 0) continue;
      const T* const m = memberships.data<T>() + t * result.regimes;
      ++result.tokens;
      if (static_cast<double>(*std::max_element(m, m + result.regimes)) > kSaturated) ++result.saturated;
      result.entropy += kernels::membership_entropy(m, result.regimes);
      for (int64_t r = 0; r < result.regimes; ++r) result.sums[static_cast<size_t>(r)] += static_cast<double>(m[r]);
    }
  });
  return result;
}

}  // namespace longhaul::ops
