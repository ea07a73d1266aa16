// The outputs of a mixture's experts brought back to their tokens (models.md 7.7).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// Where the k outputs of every token lie: choice (t, j) is row rows[t * chosen + j] of the output of expert
/// experts[t * chosen + j]. No two choices name the same row.
struct ExpertPlaces {
  const int32_t* experts;
  const int32_t* rows;
  int64_t tokens;
  int64_t chosen;
};

/// y [tokens, columns] = sum over j, in rising j, of weights[t, j] * the token's row j. outputs[e] [rows of e,
/// columns].
template <typename T>
void expert_mixture_forward(Cpu, T* y, const T* const* outputs, const T* weights, const ExpertPlaces& places,
                            int64_t columns);
/// doutputs[e] = weights[t, j] * dy[t] in every row a choice names, added where accumulate[e]; a null doutputs[e] is
/// left out. dweights [tokens, chosen] (+)= dy[t] . row; null: left out.
template <typename T>
void expert_mixture_backward(Cpu, T* const* doutputs, const bool* accumulate, T* dweights, bool accumulate_weights,
                             const T* dy, const T* const* outputs, const T* weights, const ExpertPlaces& places,
                             int64_t columns);

}  // namespace longhaul::kernels
