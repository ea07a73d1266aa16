// What the forward and backward files of the Mamba2 scan share: one call's view of inputs, sizes and scratch, and the
// phases that carry the state from chunk to chunk.
#pragma once

#include <omp.h>

#include <cmath>

#include "kernels/cpu/workspace.h"
#include "kernels/mamba2_scan.h"
#include "kernels/matmul.h"

namespace longhaul::kernels::mamba2 {

template <typename T>
struct Scan {
  const Mamba2Inputs<T>& in;
  const Mamba2Shape& shape;
  const DocumentChunk* chunks;
  int64_t chunk_count, chunk_size;

  double* log_decay = nullptr;  ///< [tokens, heads]: inclusive sum of log a from the chunk's start
  T* states = nullptr;   ///< [chunks, state_size, inner]: state before each chunk, so that all heads are one product
  T* running = nullptr;  ///< [state_size, inner]
  T* state_gradients = nullptr;   ///< backward: [chunks, state_size, inner], gradient of the state after each chunk
  double* head_sums = nullptr;    ///< backward: [chunks, heads, 2], shares of the gradients of a_log and d
  double* token_sums = nullptr;   ///< backward: per thread [2, heads, chunk_size]
  double* thread_rows = nullptr;  ///< per thread [3, chunk_size]: log decays of a head, then free
  T* thread_scratch = nullptr;
  int64_t thread_elements = 0;

  int64_t inner() const { return shape.inner(); }
  int64_t group_heads() const { return shape.heads / shape.groups; }
  int64_t group_columns() const { return inner() / shape.groups; }
  const T* x(int64_t token) const { return in.xbc + token * shape.xbc_columns(); }
  int64_t b_column(int64_t group) const { return inner() + group * shape.state_size; }
  int64_t c_column(int64_t group) const { return inner() + (shape.groups + group) * shape.state_size; }
  MatrixOperand<T> b(const DocumentChunk& chunk, int64_t group, bool transposed) const {
    return {x(chunk.begin) + b_column(group), shape.xbc_columns(), transposed};
  }
  MatrixOperand<T> c(const DocumentChunk& chunk, int64_t group, bool transposed) const {
    return {x(chunk.begin) + c_column(group), shape.xbc_columns(), transposed};
  }
  T* state(int64_t chunk) const { return states + chunk * shape.state_size * inner(); }
  T* state_gradient(int64_t chunk) const { return state_gradients + chunk * shape.state_size * inner(); }
  const double* log_decay_at(int64_t token) const { return log_decay + token * shape.heads; }
  double* rows() const { return thread_rows + omp_get_thread_num() * 3 * chunk_size; }
  T* scratch() const { return thread_scratch + omp_get_thread_num() * thread_elements; }
  /// Is the state after this chunk read by the next one of the same document?
  bool continues(int64_t chunk) const { return chunk + 1 < chunk_count && !chunks[chunk + 1].starts_document; }
  T chunk_decay(int64_t chunk, int64_t head) const {
    return static_cast<T>(std::exp(log_decay_at(chunks[chunk].begin + chunks[chunk].length - 1)[head]));
  }
};

/// Points the scratch arrays into `memory` (null: only measures); returns the bytes needed.
template <typename T>
int64_t carve(Scan<T>& scan, void* memory, bool backward, int threads);

/// Fills log_decay and states.
template <typename T>
void compute_states(const Scan<T>& scan);

/// out [length, columns of the group] = exp(log decay from each token to the chunk's end) * dt * x.
template <typename T>
void weight_inputs(const Scan<T>& scan, const DocumentChunk& chunk, int64_t group, T* out);

/// out [length, columns of the group] = exp(log decay from the chunk's start to each token) * rows; may be in place.
template <typename T>
void decay_rows(const Scan<T>& scan, const DocumentChunk& chunk, int64_t group, const T* rows, int64_t row_stride,
                T* out);

/// decay [length, length] = exp(l_i - l_j) for j <= i, 0 above the diagonal. Uses the calling thread's log decays.
template <typename T>
void pair_decays(const Scan<T>& scan, const DocumentChunk& chunk, int64_t head, T* decay);

}  // namespace longhaul::kernels::mamba2
