// Which experts a token goes to and how much each counts: the gate of a mixture of experts (models.md 7.7).
#pragma once

#include "kernels/device.h"
#include "kernels/philox.h"

namespace longhaul::kernels {

inline constexpr int64_t kMaxExperts = 64;

/// How the gate chooses.
struct ExpertGate {
  int64_t experts = 4;
  int64_t chosen = 2;        ///< experts a token goes to, k
  double temperature = 0.5;  ///< divides logits and noise
  bool noisy = false;        ///< adds Gumbel noise (Jang et al. 2017): training
  RandomKey key = {};        ///< of the noise
};

/// Gumbel noise -log(-log(u)) of one expert for the token at `position` of global sample `sample`: draw number
/// position * experts + expert of the stream (key, sample), as dropout numbers its elements.
double gumbel_noise(const RandomKey& key, uint64_t sample, int64_t position, int64_t expert, int64_t experts);

/// y = (logits + noise) / temperature; experts [tokens, k] are the k largest y of a token, the largest first, of equal
/// ones the lower index; weights [tokens, k] their softmax. That is softmax over all experts, renormalised over the
/// chosen. logits [tokens, experts]; token t is at position t % tokens_per_sample of global sample
/// sample_ids[t / tokens_per_sample], which is read only for noise. The experts of a token are different and in range
/// even where a logit is NaN (then so are the weights). internal_error unless 1 <= k <= experts <= kMaxExperts and
/// temperature > 0.
template <typename T>
void expert_gate_forward(Cpu, T* weights, int32_t* experts, const T* logits, const ExpertGate& gate,
                         const int64_t* sample_ids, int64_t tokens, int64_t tokens_per_sample);
/// dlogits [tokens, experts] (+)= the gradient through the weights; experts that were not chosen get zero.
template <typename T>
void expert_gate_backward(Cpu, T* dlogits, bool accumulate, const T* dweights, const T* weights, const int32_t* experts,
                          const ExpertGate& gate, int64_t tokens);

}  // namespace longhaul::kernels
