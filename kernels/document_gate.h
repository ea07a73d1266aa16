// The gate gamma of the attention branch (models.md 7.6): one factor for all tokens of a document, from the mean of
// memberships over it.
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// Tokens [begin, end) of x that share a gate, and memberships [pool_begin, pool_end) it is made from: a document and
/// itself in training, all tokens and the frozen memberships of a row in evaluation.
struct GatedDocument {
  int64_t begin, end;
  int64_t pool_begin, pool_end;
};

struct DocumentGateShape {
  const GatedDocument* documents;  ///< they cover all tokens of x in rising order, and their pools do not overlap
  int64_t count = 0;
  int64_t regimes = 0, heads = 0, columns = 0;
};

/// y = gate[d] x for the tokens of document d; gate[d] = mean over heads h of sigmoid(weight_h . means[d]), means[d]
/// the mean of its memberships [pool, regimes]; weight [heads, regimes], x [tokens, columns]. Sums over tokens and
/// heads run in double in rising order. Kept for backward: gate [count], sigmoids [count, heads], means [count,
/// regimes].
template <typename T>
void document_gate_forward(Cpu, T* y, double* gate, double* sigmoids, double* means, const T* x, const T* memberships,
                           const T* weight, const DocumentGateShape& shape);

/// dx (+)= gate * dy, dmemberships (+)=, dweight (+)=: each when not null; dgate [tokens] is scratch.
template <typename T>
void document_gate_backward(Cpu, T* dx, bool accumulate_x, T* dmemberships, bool accumulate_memberships, T* dweight,
                            bool accumulate_weight, double* dgate, const T* dy, const T* x, const double* gate,
                            const double* sigmoids, const double* means, const T* weight,
                            const DocumentGateShape& shape);

}  // namespace longhaul::kernels
