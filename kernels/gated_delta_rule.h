// The gated delta rule (Yang et al. 2024, "Gated Delta Networks"; models.md 4.4), per head, S [value_size, key_size]:
//   S_t = alpha_t S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T,   o_t = S_t q_t
// Equivalently S_t = alpha_t S_{t-1} + u_t k_t^T with u_t = beta_t (v_t - alpha_t S_{t-1} k_t); inside a chunk the u_t
// solve a unit lower triangular system (the WY form), always in the type of the kernel (fp32 or fp64).
#pragma once

#include "kernels/device.h"
#include "kernels/document_chunks.h"

namespace longhaul::kernels {

/// q, k [tokens, heads * key_size] and v [tokens, heads * value_size], their rows `stride` apart (0: each dense); o
/// [tokens, heads * value_size]; log_alpha, beta [tokens, heads]. q and k come L2-normalised, q already scaled.
struct DeltaRuleShape {
  int64_t tokens = 0, heads = 0, key_size = 64, value_size = 128, stride = 0;
  int64_t key_stride() const { return stride ? stride : heads * key_size; }
  int64_t value_stride() const { return stride ? stride : heads * value_size; }
};

template <typename T>
struct DeltaRuleInputs {
  const T* q;
  const T* k;
  const T* v;
  const T* log_alpha;
  const T* beta;
};

/// All overwritten; layouts of the inputs.
template <typename T>
struct DeltaRuleGradients {
  T* q;
  T* k;
  T* v;
  T* log_alpha;
  T* beta;
};

/// The recurrence as written. state: scratch of value_size * key_size elements.
template <typename T>
void gated_delta_rule_sequential(Cpu, T* o, T* state, const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape,
                                 const DocumentChunk* chunks, int64_t chunk_count);

/// Bytes of scratch the chunked passes need (one share per thread).
template <typename T>
int64_t gated_delta_rule_workspace(const DeltaRuleShape& shape, int64_t chunk_count, int64_t chunk_size, bool backward,
                                   int threads);

/// internal_error for a key so long that the recurrence would grow without bound (beta |k|^2 > 2).
template <typename T>
void gated_delta_rule_forward(Cpu, T* o, void* workspace, const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape,
                              const DocumentChunk* chunks, int64_t chunk_count, int64_t chunk_size);

/// States are recomputed from the inputs: nothing but the inputs is kept from the forward pass.
template <typename T>
void gated_delta_rule_backward(Cpu, const DeltaRuleGradients<T>& gradients, void* workspace, const T* d_o,
                               const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape, const DocumentChunk* chunks,
                               int64_t chunk_count, int64_t chunk_size);

/// One token for each of `shape.tokens` sequences: state [sequences, heads, value_size, key_size] is updated.
template <typename T>
void gated_delta_rule_step(Cpu, T* o, T* state, const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape);

}  // namespace longhaul::kernels
