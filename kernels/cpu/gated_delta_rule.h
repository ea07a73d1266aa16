// What the forward and backward files of the gated delta rule share: one head's walk over the chunks of a document.
#pragma once

#include <omp.h>

#include "kernels/cpu/workspace.h"
#include "kernels/gated_delta_rule.h"
#include "kernels/matmul.h"

namespace longhaul::kernels::delta_rule {

/// One call: inputs, sizes, scratch.
template <typename T>
struct Call {
  const DeltaRuleInputs<T>& in;
  const DeltaRuleShape& shape;
  const DocumentChunk* chunks;
  int64_t chunk_count, chunk_size;
  bool backward;

  T* thread_scratch = nullptr;
  int64_t thread_elements = 0;
  double* thread_sums = nullptr;  ///< per thread [4, chunk_size]: log decays; backward: their gradients, two free

  int64_t output_stride() const { return shape.heads * shape.value_size; }  ///< of o and d_o
  int64_t state_elements() const { return shape.key_size * shape.value_size; }
};

/// Points the scratch arrays into `memory` (null: only measures); returns the bytes needed.
template <typename T>
int64_t carve(Call<T>& call, void* memory, int threads);

/// One chunk of one head: pointers to its first token, and the scratch of the calling thread. Square arrays are
/// [length, length], lower triangular. What lies above their diagonal is zero or, where said, unspecified.
template <typename T>
struct HeadChunk {
  HeadChunk(const Call<T>& call, int64_t chunk, int64_t head);

  const T *q, *k, *v;         ///< rows key_stride, key_stride, value_stride apart
  const T *log_alpha, *beta;  ///< heads apart
  int64_t length, heads, key_size, value_size, key_stride, value_stride, output_stride;
  bool first;  ///< no state before it

  double* log_decay;   ///< [length]: inclusive sum of log alpha
  T* state_gradient;   ///< [value_size, key_size]; like the next two at the same place for all chunks of a head
  T* running_state;    ///< [value_size, key_size]
  T* states;           ///< backward: [chunks of the call, value_size, key_size], state before each chunk
  T* u;                ///< [length, value_size], the updates
  T* state_keys;       ///< [length, value_size]: S_before k_i; unspecified in the first chunk
  T* decay;            ///< square: exp(l_i - l_j), j <= i
  T* key_products;     ///< square: k_i . k_j; unspecified above the diagonal
  T* system;           ///< square, strictly lower: -beta_i decay_ij (k_i . k_j)
  T* mixing;           ///< square: decay_ij (q_i . k_j)
  T* residual;         ///< [length, value_size]: v_i - exp(l_i) S_before k_i
  T* weighted;         ///< [length, value_size]
  T* keys;             ///< [length, key_size], dense
  T* keys_transposed;  ///< [key_size, length]
  T* free_scratch;     ///< backward: 3 values, 2 keys, 2 squares

  T from_start(int64_t i) const;  ///< exp(l_i)
  T to_end(int64_t j) const;      ///< exp(l_last - l_j)
};

/// Fills log_decay, decay, keys, keys_transposed, key_products.
template <typename T>
void relate_keys(const HeadChunk<T>& chunk);

/// Fills system and residual, from state_keys.
template <typename T>
void fill_system(const HeadChunk<T>& chunk);

/// All of the above and state_keys from the state before; then u with the solution of (I - system) u = beta residual.
template <typename T>
void solve_updates(const HeadChunk<T>& chunk, const T* state);

/// Fills mixing.
template <typename T>
void mix_queries(const HeadChunk<T>& chunk);

/// state <- exp(l_last) state + sum_j exp(l_last - l_j) u_j k_j^T.
template <typename T>
void advance_state(const HeadChunk<T>& chunk, T* state);

}  // namespace longhaul::kernels::delta_rule
