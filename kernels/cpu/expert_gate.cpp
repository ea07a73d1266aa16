#include "kernels/expert_gate.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/error.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kNoiseWork = 32;  ///< what a noisy logit costs, in elements of parallel_ranges

void check(const ExpertGate& gate) {
  if (gate.chosen < 1 || gate.chosen > gate.experts || gate.experts > kMaxExperts)
    throw internal_error("expert_gate: {} of {} experts; expected 1..{} of 1..{}", gate.chosen, gate.experts,
                         gate.experts, kMaxExperts);
  if (!(gate.temperature > 0)) throw internal_error("expert_gate: temperature {} is not positive", gate.temperature);
}

/// Uniform in (0, 1): neither end, whose logarithms are not finite.
double open_uniform(uint32_t bits) { return (static_cast<double>(bits) + 0.5) / 4294967296.0; }
double gumbel(uint32_t bits) { return -std::log(-std::log(open_uniform(bits))); }

/// y += the noise of all experts of one token.
void add_noise(double* y, const ExpertGate& gate, uint64_t sample, int64_t position) {
  uint32_t bits[4];
  const int64_t first = position * gate.experts;
  for (int64_t e = 0; e < gate.experts; ++e) {
    const int64_t element = first + e;
    if (e == 0 || element % 4 == 0) random_bits4(gate.key, sample, static_cast<uint64_t>(element / 4), bits);
    y[e] += gumbel(bits[element % 4]);
  }
}

/// The k largest y, the largest first, of equal ones the lower index.
void choose(int32_t* experts, const double* y, const ExpertGate& gate) {
  bool taken[kMaxExperts] = {};
  for (int64_t j = 0; j < gate.chosen; ++j) {
    int64_t best = std::find(taken, taken + gate.experts, false) - taken;
    for (int64_t e = best + 1; e < gate.experts; ++e)
      if (!taken[e] && y[e] > y[best]) best = e;
    taken[best] = true;
    experts[j] = static_cast<int32_t>(best);
  }
}

/// Softmax of the chosen y.
template <typename T>
void weigh(T* weights, const int32_t* experts, const double* y, int64_t chosen) {
  double exponentials[kMaxExperts], sum = 0;
  for (int64_t j = 0; j < chosen; ++j) sum += exponentials[j] = std::exp(y[experts[j]] - y[experts[0]]);
  for (int64_t j = 0; j < chosen; ++j) weights[j] = static_cast<T>(exponentials[j] / sum);
}

}  // namespace

double gumbel_noise(const RandomKey& key, uint64_t sample, int64_t position, int64_t expert, int64_t experts) {
  const int64_t element = position * experts + expert;
  uint32_t bits[4];
  random_bits4(key, sample, static_cast<uint64_t>(element / 4), bits);
  return gumbel(bits[element % 4]);
}

template <typename T>
void expert_gate_forward(Cpu, T* weights, int32_t* experts, const T* logits, const ExpertGate& gate,
                         const int64_t* sample_ids, int64_t tokens, int64_t tokens_per_sample) {
  check(gate);
  const int64_t work = tokens * gate.experts * (gate.noisy ? kNoiseWork : 1);
  parallel_ranges(tokens, 16, work, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      double y[kMaxExperts];
      for (int64_t e = 0; e < gate.experts; ++e) y[e] = static_cast<double>(logits[t * gate.experts + e]);
      if (gate.noisy)
        add_noise(y, gate, static_cast<uint64_t>(sample_ids[t / tokens_per_sample]), t % tokens_per_sample);
      for (int64_t e = 0; e < gate.experts; ++e) y[e] /= gate.temperature;
      choose(experts + t * gate.chosen, y, gate);
      weigh(weights + t * gate.chosen, experts + t * gate.chosen, y, gate.chosen);
    }
  });
}

template <typename T>
void expert_gate_backward(Cpu, T* dlogits, bool accumulate, const T* dweights, const T* weights, const int32_t* experts,
                          const ExpertGate& gate, int64_t tokens) {
  check(gate);
  parallel_ranges(tokens, 16, tokens * gate.experts, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* const w = weights + t * gate.chosen;
      const T* const dw = dweights + t * gate.chosen;
      T* const target = dlogits + t * gate.experts;
      double inner = 0;
      for (int64_t j = 0; j < gate.chosen; ++j) inner += static_cast<double>(dw[j]) * static_cast<double>(w[j]);
      if (!accumulate) std::fill_n(target, gate.experts, T(0));
      for (int64_t j = 0; j < gate.chosen; ++j) {
        const double dy = static_cast<double>(w[j]) * (static_cast<double>(dw[j]) - inner);
        target[experts[t * gate.chosen + j]] += static_cast<T>(dy / gate.temperature);
      }
    }
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                                                        \
  template void expert_gate_forward(Cpu, T*, int32_t*, const T*, const ExpertGate&, const int64_t*, int64_t, int64_t); \
  template void expert_gate_backward(Cpu, T*, bool, const T*, const T*, const int32_t*, const ExpertGate&, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
