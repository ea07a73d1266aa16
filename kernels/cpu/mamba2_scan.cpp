#include "kernels/mamba2_scan.h"

#include <algorithm>

#include "kernels/cpu/mamba2_scan.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/vector_math.h"

namespace longhaul::kernels {
namespace mamba2 {

template <typename T>
int64_t carve(Scan<T>& scan, void* memory, bool backward, int threads) {
  const Mamba2Shape& shape = scan.shape;
  WorkspaceCarver carver(memory);
  const int64_t state_elements = shape.state_size * shape.inner();
  scan.log_decay = carver.template take<double>(shape.tokens * shape.heads);
  scan.states = carver.template take<T>(scan.chunk_count * state_elements);
  scan.running = carver.template take<T>(state_elements);
  const int64_t wide = scan.chunk_size * shape.inner(), square = scan.chunk_size * scan.chunk_size;
  const int64_t narrow = scan.chunk_size * shape.head_size;
  scan.thread_elements = backward ? 2 * wide + 4 * square + 2 * narrow + scan.chunk_size +
                                        (shape.head_size + scan.chunk_size) * shape.state_size
                                  : wide + 2 * square + narrow;
  scan.thread_scratch = carver.template take<T>(scan.thread_elements * threads);
  scan.thread_rows = carver.template take<double>(3 * scan.chunk_size * threads);
  if (backward) {
    scan.state_gradients = carver.template take<T>(scan.chunk_count * state_elements);
    scan.head_sums = carver.template take<double>(2 * scan.chunk_count * shape.heads);
    scan.token_sums = carver.template take<double>(2 * shape.heads * scan.chunk_size * threads);
  }
  return carver.bytes();
}

template <typename T>
void sum_log_decays(const Scan<T>& scan) {
  const int64_t heads = scan.shape.heads;
#pragma omp parallel for schedule(static)
  for (int64_t index = 0; index < scan.chunk_count; ++index) {
    const DocumentChunk& chunk = scan.chunks[index];
    for (int64_t head = 0; head < heads; ++head) {
      const double rate = -std::exp(static_cast<double>(scan.in.a_log[head]));
      double sum = 0;
      for (int64_t t = chunk.begin; t < chunk.begin + chunk.length; ++t) {
        sum += rate * static_cast<double>(scan.in.dt[t * heads + head]);
        scan.log_decay[t * heads + head] = sum;
      }
    }
  }
}

template <typename T>
void weight_inputs(const Scan<T>& scan, const DocumentChunk& chunk, int64_t group, T* out) {
  const Mamba2Shape& shape = scan.shape;
  const int64_t heads = scan.group_heads(), first = group * heads, columns = scan.group_columns();
  const double* last = scan.log_decay_at(chunk.begin + chunk.length - 1);
  for (int64_t j = 0; j < chunk.length; ++j) {
    const int64_t t = chunk.begin + j;
    const T* x = scan.x(t) + first * shape.head_size;
    for (int64_t h = 0; h < heads; ++h) {
      const T decay = std::exp(static_cast<T>(last[first + h] - scan.log_decay_at(t)[first + h]));
      const T weight = decay * scan.in.dt[t * shape.heads + first + h];
      for (int64_t p = h * shape.head_size; p < (h + 1) * shape.head_size; ++p) out[j * columns + p] = weight * x[p];
    }
  }
}

template <typename T>
void decay_rows(const Scan<T>& scan, const DocumentChunk& chunk, int64_t group, const T* rows, int64_t row_stride,
                T* out) {
  const int64_t heads = scan.group_heads(), columns = scan.group_columns(), size = scan.shape.head_size;
  for (int64_t i = 0; i < chunk.length; ++i) {
    for (int64_t h = 0; h < heads; ++h) {
      const T decay = std::exp(static_cast<T>(scan.log_decay_at(chunk.begin + i)[group * heads + h]));
      for (int64_t p = h * size; p < (h + 1) * size; ++p) out[i * columns + p] = decay * rows[i * row_stride + p];
    }
  }
}

template <typename T>
void pair_decays(const Scan<T>& scan, const DocumentChunk& chunk, int64_t head, T* decay) {
  constexpr int64_t kWidth = simd::kWidth<T>;
  const int64_t n = chunk.length;
  double* log_decay = scan.rows();
  for (int64_t i = 0; i < n; ++i) log_decay[i] = scan.log_decay_at(chunk.begin + i)[head];
  for (int64_t i = 0; i < n; ++i) {
    T* row = decay + i * n;
    const int64_t end = std::min(n, (i + kWidth) / kWidth * kWidth);  // whole vectors; what lies beyond i is replaced
    for (int64_t j = 0; j < end; ++j) row[j] = static_cast<T>(std::min(log_decay[i] - log_decay[j], 0.0));
    exp_in_place(row, end);
    std::fill(row + i + 1, row + n, T(0));
  }
}

/// What each chunk alone adds to the state at its end, into states.
template <typename T>
void local_states(const Scan<T>& scan) {
  const int64_t columns = scan.group_columns();
#pragma omp parallel for schedule(dynamic)
  for (int64_t index = 0; index < scan.chunk_count; ++index) {
    const DocumentChunk& chunk = scan.chunks[index];
    if (!scan.continues(index)) continue;
    for (int64_t group = 0; group < scan.shape.groups; ++group) {
      T* weighted = scan.scratch();
      weight_inputs(scan, chunk, group, weighted);
      matmul<T>(Cpu{}, scan.state(index) + group * columns, scan.inner(), scan.b(chunk, group, true),
                {weighted, columns, false}, scan.shape.state_size, columns, chunk.length, T(1), T(0));
    }
  }
}

/// Turns the local states into the state before each chunk: S <- decay S + local, in token order.
template <typename T>
void pass_states(const Scan<T>& scan) {
  const int64_t inner = scan.inner(), size = scan.shape.head_size;
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < scan.shape.state_size; ++n) {
    T* running = scan.running + n * inner;
    for (int64_t index = 0; index < scan.chunk_count; ++index) {
      T* row = scan.state(index) + n * inner;
      if (scan.chunks[index].starts_document) std::fill_n(running, inner, T(0));
      const bool continues = scan.continues(index);
      for (int64_t h = 0; h < scan.shape.heads; ++h) {
        const T decay = continues ? scan.chunk_decay(index, h) : T(0);
        for (int64_t p = h * size; p < (h + 1) * size; ++p) {
          const T local = continues ? row[p] : T(0);
          row[p] = running[p];
          running[p] = decay * running[p] + local;
        }
      }
    }
  }
}

template <typename T>
void compute_states(const Scan<T>& scan) {
  sum_log_decays(scan);
  local_states(scan);
  pass_states(scan);
}

/// y of one chunk: what its own tokens send (decay-weighted C B^T), what the state before it sends, and D x.
template <typename T>
void chunk_outputs(const Scan<T>& scan, int64_t index, T* y) {
  const Mamba2Shape& shape = scan.shape;
  const DocumentChunk& chunk = scan.chunks[index];
  const int64_t length = chunk.length, columns = scan.group_columns(), inner = scan.inner(), size = shape.head_size;
  const int64_t heads = scan.group_heads();
  T* from_state = scan.scratch();
  T* products = from_state + scan.chunk_size * inner;
  T* mixing = products + scan.chunk_size * scan.chunk_size;
  T* inputs = mixing + scan.chunk_size * scan.chunk_size;  // dt x of one head
  for (int64_t group = 0; group < shape.groups; ++group) {
    matmul<T>(Cpu{}, products, length, scan.c(chunk, group, false), scan.b(chunk, group, true), length, length,
              shape.state_size, T(1), T(0));
    for (int64_t head = group * heads; head < (group + 1) * heads; ++head) {
      pair_decays(scan, chunk, head, mixing);
      for (int64_t i = 0; i < length; ++i) {
        const T dt = scan.in.dt[(chunk.begin + i) * shape.heads + head];
        const T* x = scan.x(chunk.begin + i) + head * size;
        for (int64_t j = 0; j <= i; ++j) mixing[i * length + j] *= products[i * length + j];
        for (int64_t p = 0; p < size; ++p) inputs[i * size + p] = dt * x[p];
      }
      tile_product<T>({.c = y + chunk.begin * inner + head * size,
                       .c_stride = inner,
                       .a = mixing,
                       .a_row = length,
                       .a_depth = 1,
                       .b = inputs,
                       .b_stride = size,
                       .rows = length,
                       .columns = size,
                       .depth = length,
                       .a_part = Part::kLower});
    }
    if (!chunk.starts_document) {
      matmul<T>(Cpu{}, from_state, columns, scan.c(chunk, group, false),
                {scan.state(index) + group * columns, inner, false}, length, columns, shape.state_size, T(1), T(0));
    }
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        T* out = y + (chunk.begin + i) * inner + group * columns + h * size;
        const T* x = scan.x(chunk.begin + i) + group * columns + h * size;
        const T skip = scan.in.d[group * heads + h];
        if (chunk.starts_document) {
          for (int64_t p = 0; p < size; ++p) out[p] += skip * x[p];
        } else {
          const T decay = std::exp(static_cast<T>(scan.log_decay_at(chunk.begin + i)[group * heads + h]));
          const T* carried = from_state + i * columns + h * size;
          for (int64_t p = 0; p < size; ++p) out[p] += decay * carried[p] + skip * x[p];
        }
      }
    }
  }
}

/// One token of the recurrence for one head; state [heads * head_size, state_size].
template <typename T>
void step_head(T* y, T* state, const Mamba2Inputs<T>& in, const Mamba2Shape& shape, int64_t token, int64_t head) {
  const T* row = in.xbc + token * shape.xbc_columns();
  const T* b = row + shape.inner() + head * shape.groups / shape.heads * shape.state_size;
  const T* c = b + shape.groups * shape.state_size;
  const T dt = in.dt[token * shape.heads + head];
  const T decay = static_cast<T>(std::exp(-std::exp(static_cast<double>(in.a_log[head])) * static_cast<double>(dt)));
  for (int64_t p = head * shape.head_size; p < (head + 1) * shape.head_size; ++p) {
    T* state_row = state + p * shape.state_size;
    const T input = dt * row[p];
    for (int64_t n = 0; n < shape.state_size; ++n) state_row[n] = decay * state_row[n] + input * b[n];
    y[token * shape.inner() + p] = static_cast<T>(dot(state_row, c, shape.state_size)) + in.d[head] * row[p];
  }
}

#define LONGHAUL_INSTANTIATE(T)                                                                      \
  template int64_t carve<T>(Scan<T>&, void*, bool, int);                                             \
  template void compute_states<T>(const Scan<T>&);                                                   \
  template void weight_inputs<T>(const Scan<T>&, const DocumentChunk&, int64_t, T*);                 \
  template void decay_rows<T>(const Scan<T>&, const DocumentChunk&, int64_t, const T*, int64_t, T*); \
  template void pair_decays<T>(const Scan<T>&, const DocumentChunk&, int64_t, T*)
LONGHAUL_INSTANTIATE(float);
LONGHAUL_INSTANTIATE(double);
#undef LONGHAUL_INSTANTIATE

}  // namespace mamba2

template <typename T>
void mamba2_scan_sequential(Cpu, T* y, T* state, const Mamba2Inputs<T>& in, const Mamba2Shape& shape,
                            const DocumentChunk* chunks, int64_t chunk_count) {
  for (int64_t index = 0; index < chunk_count; ++index) {
    if (chunks[index].starts_document) std::fill_n(state, shape.inner() * shape.state_size, T(0));
    for (int64_t t = chunks[index].begin; t < chunks[index].begin + chunks[index].length; ++t) {
      for (int64_t head = 0; head < shape.heads; ++head) mamba2::step_head(y, state, in, shape, t, head);
    }
  }
}

template <typename T>
int64_t mamba2_scan_workspace(const Mamba2Shape& shape, int64_t chunk_count, int64_t chunk_size, bool backward,
                              int threads) {
  const Mamba2Inputs<T> none{};
  mamba2::Scan<T> scan{
      .in = none, .shape = shape, .chunks = nullptr, .chunk_count = chunk_count, .chunk_size = chunk_size};
  return mamba2::carve(scan, nullptr, backward, threads);
}

template <typename T>
void mamba2_scan_forward(Cpu, T* y, void* workspace, const Mamba2Inputs<T>& in, const Mamba2Shape& shape,
                         const DocumentChunk* chunks, int64_t chunk_count, int64_t chunk_size) {
  mamba2::Scan<T> scan{
      .in = in, .shape = shape, .chunks = chunks, .chunk_count = chunk_count, .chunk_size = chunk_size};
  mamba2::carve(scan, workspace, false, omp_get_max_threads());
  mamba2::compute_states(scan);
#pragma omp parallel for schedule(dynamic)
  for (int64_t index = 0; index < chunk_count; ++index) mamba2::chunk_outputs(scan, index, y);
}

template <typename T>
void mamba2_scan_step(Cpu, T* y, T* state, const Mamba2Inputs<T>& in, const Mamba2Shape& shape) {
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t token = 0; token < shape.tokens; ++token) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      mamba2::step_head(y, state + token * shape.inner() * shape.state_size, in, shape, token, head);
    }
  }
}

#define LONGHAUL_INSTANTIATE(T)                                                                    \
  template void mamba2_scan_sequential<T>(Cpu, T*, T*, const Mamba2Inputs<T>&, const Mamba2Shape&, \
                                          const DocumentChunk*, int64_t);                          \
  template int64_t mamba2_scan_workspace<T>(const Mamba2Shape&, int64_t, int64_t, bool, int);      \
  template void mamba2_scan_forward<T>(Cpu, T*, void*, const Mamba2Inputs<T>&, const Mamba2Shape&, \
                                       const DocumentChunk*, int64_t, int64_t);                    \
  template void mamba2_scan_step<T>(Cpu, T*, T*, const Mamba2Inputs<T>&, const Mamba2Shape&)
LONGHAUL_INSTANTIATE(float);
LONGHAUL_INSTANTIATE(double);
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
