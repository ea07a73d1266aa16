// What the memberships of a token decide beside the prior: the gate of its residual branches (models.md 7.6) and the
// floor of their entropy (models.md 7, regularisers).
#pragma once

#include "kernels/device.h"
#include "kernels/memberships.h"

namespace longhaul::kernels {

/// y [tokens, columns] = gate[t] * x, gate [tokens] = sigmoid(weight . memberships[t]); memberships [tokens, regimes],
/// weight [regimes]. y may be x.
template <typename T>
void membership_gate_forward(Cpu, T* y, T* gate, const T* x, const T* memberships, const T* weight, int64_t tokens,
                             int64_t regimes, int64_t columns);
/// dx (+)= gate * dy, dmemberships (+)=, dweight (+)=: each when not null. Sums over tokens run in double in rising
/// order. dscore [tokens], the gradient of weight . memberships, is scratch.
template <typename T>
void membership_gate_backward(Cpu, T* dx, bool accumulate_x, T* dmemberships, bool accumulate_memberships, T* dweight,
                              bool accumulate_weight, T* dscore, const T* dy, const T* x, const T* gate,
                              const T* memberships, const T* weight, int64_t tokens, int64_t regimes, int64_t columns);

/// Entropy of the memberships of one token, in nats; a membership of 0 contributes 0.
template <typename T>
double membership_entropy(const T* memberships, int64_t regimes);

/// Sum over tokens with targets[t] >= 0, in double in rising order, of relu(share * log(regimes) - entropy).
template <typename T>
double entropy_floor_forward(Cpu, const T* memberships, const int32_t* targets, double share, int64_t tokens,
                             int64_t regimes);
/// dmemberships [tokens, regimes] (+)= factor * (log m + 1) of the tokens below the floor, 0 of the others. The
/// logarithm is held at log(1e-30), so that a membership of 0 gets a finite gradient.
template <typename T>
void entropy_floor_backward(Cpu, T* dmemberships, bool accumulate, double factor, const T* memberships,
                            const int32_t* targets, double share, int64_t tokens, int64_t regimes);

}  // namespace longhaul::kernels
