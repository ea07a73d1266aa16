// What the forward and backward files of the gated delta rule share: one head's walk over the chunks of a document.
#pragma once

#include <omp.h>

#include "kernels/cpu/workspace.h"
#include "kernels/gated_delta_rule.h"
#include "kernels/matmul.h"

namespace longhaul::kernels::delta_rule {

/// One call: inputs, sizes, scratch. Square arrays are [length, length] of the chunk at hand, lower triangular.
template <typename T>
struct Call {
  const DeltaRuleInputs<T>& in;
  const DeltaRuleShape& shape;
  const DocumentChunk* chunks;
  int64_t chunk_count, chunk_size;

  T* updates = nullptr;  ///< backward: [tokens, heads * value_size], the u_t
  T* states = nullptr;   ///< backward: [chunks, heads, value_size * key_size], state before each chunk
  T* thread_scratch = nullptr;
  int64_t thread_elements = 0;
  double* thread_sums = nullptr;  ///< per thread [3, chunk_size]: log decays, their gradients

  int64_t output_stride() const { return shape.heads * shape.value_size; }  ///< of o, d_o and the updates
  int64_t state_elements() const { return shape.key_size * shape.value_size; }
};

/// Points the scratch arrays into `memory` (null: only measures); returns the bytes needed.
template <typename T>
int64_t carve(Call<T>& call, void* memory, bool backward, int threads);

/// One chunk of one head: pointers to its first token, and the scratch of the calling thread.
template <typename T>
struct HeadChunk {
  HeadChunk(const Call<T>& call, int64_t chunk, int64_t head);

  const T *q, *k, *v;         ///< rows key_stride, key_stride, value_stride apart
  const T *log_alpha, *beta;  ///< heads apart
  int64_t length, heads, key_size, value_size, key_stride, value_stride, output_stride;
  bool first;  ///< no state before it

  double* log_decay;  ///< [length]: inclusive sum of log alpha
  T* decay;           ///< square: exp(l_i - l_j), j <= i
  T* key_products;    ///< square: k_i . k_j
  T* system;          ///< square, strictly lower: beta_i decay_ij (k_i . k_j)
  T* residual;        ///< [length, value_size]: v_i - exp(l_i) S_before k_i
  T* state_keys;      ///< [length, value_size]: S_before k_i
  T* free_scratch;    ///< behind them

  MatrixOperand<T> keys(bool transposed = false) const { return {k, key_stride, transposed}; }
  MatrixOperand<T> queries(bool transposed = false) const { return {q, key_stride, transposed}; }
  T from_start(int64_t i) const;  ///< exp(l_i)
  T to_end(int64_t j) const;      ///< exp(l_last - l_j)
};

/// Fills log_decay, decay, key_products, system, residual, state_keys; then u [length, value_size] (rows u_stride
/// apart) with the solution of (I + system) u = beta * residual.
template <typename T>
void solve_updates(const HeadChunk<T>& chunk, const T* state, T* u, int64_t u_stride);

/// state <- exp(l_last) state + sum_j exp(l_last - l_j) u_j k_j^T. weighted: scratch [length, value_size].
template <typename T>
void advance_state(const HeadChunk<T>& chunk, T* state, const T* u, int64_t u_stride, T* weighted);

}  // namespace longhaul::kernels::delta_rule
