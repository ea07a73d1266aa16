// Mamba2's state-space recurrence (Dao & Gu 2024, "Transformers are SSMs"; models.md 3.4):
//   a_t = exp(-exp(A_log) dt_t),  S_t = a_t S_{t-1} + dt_t x_t B_t^T,  y_t = S_t C_t + D x_t     (per head, S [P, N])
// Three forms: sequential (the oracle), chunked (training: matrix products inside a chunk, state between chunks), one
// token.
#pragma once

#include "kernels/device.h"
#include "kernels/document_chunks.h"

namespace longhaul::kernels {

/// xbc [tokens, heads * head_size + 2 * groups * state_size]: x, then B, then C (the convolution's output). dt [tokens,
/// heads] after softplus and clamp. a_log, d [heads]. y [tokens, heads * head_size]. heads is a multiple of groups;
/// head h reads group h * groups / heads.
struct Mamba2Shape {
  int64_t tokens = 0, heads = 0, head_size = 64, state_size = 128, groups = 1;
  int64_t inner() const { return heads * head_size; }
  int64_t xbc_columns() const { return inner() + 2 * groups * state_size; }
};

template <typename T>
struct Mamba2Inputs {
  const T* xbc;
  const T* dt;
  const T* a_log;
  const T* d;
};

/// Gradients: xbc and dt are overwritten; a_log and d are overwritten, or added to with accumulate_parameters.
template <typename T>
struct Mamba2Gradients {
  T* xbc;
  T* dt;
  T* a_log;
  T* d;
  bool accumulate_parameters = false;
};

/// The recurrence as written, token by token. Chunks only tell where documents begin. state: scratch of
/// heads * head_size * state_size elements.
template <typename T>
void mamba2_scan_sequential(Cpu, T* y, T* state, const Mamba2Inputs<T>& in, const Mamba2Shape& shape,
                            const DocumentChunk* chunks, int64_t chunk_count);

/// Bytes of scratch the chunked passes need. chunk_size is the largest chunk length; threads: omp_get_max_threads().
template <typename T>
int64_t mamba2_scan_workspace(const Mamba2Shape& shape, int64_t chunk_count, int64_t chunk_size, bool backward,
                              int threads);

/// Chunked form. Decays are differences of a cumulative sum of log a kept in double: never a positive exponent.
template <typename T>
void mamba2_scan_forward(Cpu, T* y, void* workspace, const Mamba2Inputs<T>& in, const Mamba2Shape& shape,
                         const DocumentChunk* chunks, int64_t chunk_count, int64_t chunk_size);

/// Gradient of the chunked form; states are recomputed from the inputs, nothing but the inputs is kept from the forward
/// pass.
template <typename T>
void mamba2_scan_backward(Cpu, const Mamba2Gradients<T>& gradients, void* workspace, const T* dy,
                          const Mamba2Inputs<T>& in, const Mamba2Shape& shape, const DocumentChunk* chunks,
                          int64_t chunk_count, int64_t chunk_size);

/// One token for each of `shape.tokens` sequences: state [sequences, heads * head_size, state_size] is updated.
template <typename T>
void mamba2_scan_step(Cpu, T* y, T* state, const Mamba2Inputs<T>& in, const Mamba2Shape& shape);

}  // namespace longhaul::kernels
