#include "kernels/document_gate.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

namespace longhaul::kernels {
namespace {

template <typename T>
void scale_tokens(T* y, bool accumulate, double gate, const T* x, const GatedDocument& document, int64_t columns) {
  const int64_t first = document.begin, count = document.end - document.begin;
  parallel_ranges(count, 1, count * columns, [=](int64_t begin, int64_t end) {
    const int64_t at = (first + begin) * columns;
    write_scaled(y + at, accumulate, static_cast<T>(gate), x + at, (end - begin) * columns);
  });
}

/// What reaches the mean of a document's memberships: dmean[r] = sum over h of dscore_h weight_hr.
template <typename T>
std::vector<double> mean_gradient(const std::vector<double>& dscore, const T* weight, int64_t regimes) {
  std::vector<double> dmean(static_cast<size_t>(regimes));
  for (size_t h = 0; h < dscore.size(); ++h)
    for (size_t r = 0; r < dmean.size(); ++r) dmean[r] += dscore[h] * static_cast<double>(weight[h * dmean.size() + r]);
  return dmean;
}

}  // namespace

template <typename T>
void document_gate_forward(Cpu, T* y, double* gate, double* sigmoids, double* means, const T* x, const T* memberships,
                           const T* weight, const DocumentGateShape& shape) {
  for (int64_t d = 0; d < shape.count; ++d) {
    const GatedDocument& document = shape.documents[d];
    double* const mean = means + d * shape.regimes;
    for (int64_t r = 0; r < shape.regimes; ++r) {
      mean[r] = 0;
      for (int64_t t = document.pool_begin; t < document.pool_end; ++t)
        mean[r] += static_cast<double>(memberships[t * shape.regimes + r]);
      mean[r] /= static_cast<double>(document.pool_end - document.pool_begin);
    }
    gate[d] = 0;
    for (int64_t h = 0; h < shape.heads; ++h) {
      double score = 0;
      for (int64_t r = 0; r < shape.regimes; ++r) score += static_cast<double>(weight[h * shape.regimes + r]) * mean[r];
      gate[d] += sigmoids[d * shape.heads + h] = 1 / (1 + std::exp(-score));
    }
    gate[d] /= static_cast<double>(shape.heads);
    scale_tokens(y, false, gate[d], x, document, shape.columns);
  }
}

template <typename T>
void document_gate_backward(Cpu, T* dx, bool accumulate_x, T* dmemberships, bool accumulate_memberships, T* dweight,
                            bool accumulate_weight, double* dgate, const T* dy, const T* x, const double* gate,
                            const double* sigmoids, const double* means, const T* weight,
                            const DocumentGateShape& shape) {
  const int64_t tokens = shape.count > 0 ? shape.documents[shape.count - 1].end : 0;
  const int64_t regimes = shape.regimes, heads = shape.heads, columns = shape.columns;
  parallel_ranges(tokens, 1, tokens * columns, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) dgate[t] = dot(dy + t * columns, x + t * columns, columns);
  });
  std::vector<double> dweight_sums(static_cast<size_t>(heads * regimes)), dscore(static_cast<size_t>(heads));
  for (int64_t d = 0; d < shape.count; ++d) {
    const GatedDocument& document = shape.documents[d];
    double sum = 0;
    for (int64_t t = document.begin; t < document.end; ++t) sum += dgate[t];
    for (int64_t h = 0; h < heads; ++h) {
      const double sigmoid = sigmoids[d * heads + h];
      dscore[static_cast<size_t>(h)] = sum / static_cast<double>(heads) * sigmoid * (1 - sigmoid);
      for (int64_t r = 0; r < regimes; ++r)
        dweight_sums[static_cast<size_t>(h * regimes + r)] += dscore[static_cast<size_t>(h)] * means[d * regimes + r];
    }
    if (dx != nullptr) scale_tokens(dx, accumulate_x, gate[d], dy, document, columns);
    if (dmemberships == nullptr) continue;
    const std::vector<double> dmean = mean_gradient(dscore, weight, regimes);
    const double share = 1 / static_cast<double>(document.pool_end - document.pool_begin);
    for (int64_t t = document.pool_begin; t < document.pool_end; ++t) {
      for (int64_t r = 0; r < regimes; ++r) {
        T& target = dmemberships[t * regimes + r];
        const T gradient = static_cast<T>(share * dmean[static_cast<size_t>(r)]);
        target = accumulate_memberships ? target + gradient : gradient;
      }
    }
  }
  if (dweight == nullptr) return;
  for (size_t i = 0; i < dweight_sums.size(); ++i) {
    const double before = accumulate_weight ? static_cast<double>(dweight[i]) : 0.0;
    dweight[i] = static_cast<T>(before + dweight_sums[i]);
  }
}

#define LONGHAUL_INSTANTIATE(T)                                                                                       \
  template void document_gate_forward(Cpu, T*, double*, double*, double*, const T*, const T*, const T*,               \
                                      const DocumentGateShape&);                                                      \
  template void document_gate_backward(Cpu, T*, bool, T*, bool, T*, bool, double*, const T*, const T*, const double*, \
                                       const double*, const double*, const T*, const DocumentGateShape&);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
