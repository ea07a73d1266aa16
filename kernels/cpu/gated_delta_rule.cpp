#include "kernels/gated_delta_rule.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/gated_delta_rule.h"
#include "kernels/cpu/vector_math.h"

namespace longhaul::kernels {
namespace delta_rule {

template <typename T>
int64_t carve(Call<T>& call, void* memory, bool backward, int threads) {
  const DeltaRuleShape& shape = call.shape;
  WorkspaceCarver carver(memory);
  const int64_t n = call.chunk_size, square = n * n, values = n * shape.value_size, keys = n * shape.key_size;
  // HeadChunk: 3 squares, 2 values. Forward: state, u, weighted, mixing. Backward: see HeadGradient.
  call.thread_elements = 3 * square + 2 * values + 2 * call.state_elements() + 4 * values + 3 * square + keys;
  call.thread_scratch = carver.template take<T>(call.thread_elements * threads);
  call.thread_sums = carver.template take<double>(2 * n * threads);
  if (backward) {
    call.updates = carver.template take<T>(shape.tokens * shape.heads * shape.value_size);
    call.states = carver.template take<T>(call.chunk_count * shape.heads * call.state_elements());
  }
  return carver.bytes();
}

template <typename T>
HeadChunk<T>::HeadChunk(const Call<T>& call, int64_t index, int64_t head)
    : length(call.chunks[index].length),
      heads(call.shape.heads),
      key_size(call.shape.key_size),
      value_size(call.shape.value_size),
      key_stride(call.shape.key_stride()),
      value_stride(call.shape.value_stride()),
      output_stride(call.output_stride()),
      first(call.chunks[index].starts_document) {
  const int64_t begin = call.chunks[index].begin;
  q = call.in.q + begin * key_stride + head * key_size;
  k = call.in.k + begin * key_stride + head * key_size;
  v = call.in.v + begin * value_stride + head * value_size;
  log_alpha = call.in.log_alpha + begin * heads + head;
  beta = call.in.beta + begin * heads + head;
  const int64_t square = call.chunk_size * call.chunk_size, values = call.chunk_size * value_size;
  log_decay = call.thread_sums + omp_get_thread_num() * 2 * call.chunk_size;
  decay = call.thread_scratch + omp_get_thread_num() * call.thread_elements;
  key_products = decay + square;
  system = key_products + square;
  residual = system + square;
  state_keys = residual + values;
  free_scratch = state_keys + values;
}

template <typename T>
T HeadChunk<T>::from_start(int64_t i) const {
  return std::exp(static_cast<T>(log_decay[i]));
}
template <typename T>
T HeadChunk<T>::to_end(int64_t j) const {
  return std::exp(static_cast<T>(log_decay[length - 1] - log_decay[j]));
}

template <typename T>
void fill_decays(const HeadChunk<T>& chunk) {
  double sum = 0;
  for (int64_t i = 0; i < chunk.length; ++i) {
    sum += static_cast<double>(chunk.log_alpha[i * chunk.heads]);
    chunk.log_decay[i] = sum;
    T* row = chunk.decay + i * chunk.length;
    for (int64_t j = 0; j <= i; ++j) row[j] = static_cast<T>(sum - chunk.log_decay[j]);
    exp_in_place(row, i + 1);
    std::fill(row + i + 1, row + chunk.length, T(0));
  }
}

template <typename T>
void solve_updates(const HeadChunk<T>& chunk, const T* state, T* u, int64_t u_stride) {
  const int64_t n = chunk.length, values = chunk.value_size;
  fill_decays(chunk);
  matmul<T>(Cpu{}, chunk.key_products, n, chunk.keys(), chunk.keys(true), n, n, chunk.key_size, T(1), T(0));
  if (!chunk.first) {
    matmul<T>(Cpu{}, chunk.state_keys, values, chunk.keys(), {state, chunk.key_size, true}, n, values, chunk.key_size,
              T(1), T(0));
  }
  for (int64_t i = 0; i < n; ++i) {
    const T beta = chunk.beta[i * chunk.heads], from_start = chunk.from_start(i);
    T* row = chunk.system + i * n;
    for (int64_t j = 0; j < i; ++j) row[j] = beta * chunk.decay[i * n + j] * chunk.key_products[i * n + j];
    std::fill(row + i, row + n, T(0));
    T* residual = chunk.residual + i * values;
    T* out = u + i * u_stride;
    for (int64_t c = 0; c < values; ++c) {
      const T predicted = chunk.first ? T(0) : from_start * chunk.state_keys[i * values + c];
      residual[c] = chunk.v[i * chunk.value_stride + c] - predicted;
      out[c] = beta * residual[c];
    }
    for (int64_t j = 0; j < i; ++j) {
      const T factor = row[j];
      const T* earlier = u + j * u_stride;
      for (int64_t c = 0; c < values; ++c) out[c] -= factor * earlier[c];
    }
  }
}

template <typename T>
void advance_state(const HeadChunk<T>& chunk, T* state, const T* u, int64_t u_stride, T* weighted) {
  const int64_t n = chunk.length, values = chunk.value_size;
  for (int64_t j = 0; j < n; ++j) {
    const T weight = chunk.to_end(j);
    for (int64_t c = 0; c < values; ++c) weighted[j * values + c] = weight * u[j * u_stride + c];
  }
  matmul<T>(Cpu{}, state, chunk.key_size, {weighted, values, true}, chunk.keys(), values, chunk.key_size, n, T(1),
            chunk.first ? T(0) : chunk.from_start(n - 1));
}

/// o_i = exp(l_i) S_before q_i + sum_{j <= i} decay_ij (q_i . k_j) u_j.
template <typename T>
void chunk_outputs(const HeadChunk<T>& chunk, const T* state, const T* u, T* mixing, T* o) {
  const int64_t n = chunk.length, values = chunk.value_size;
  if (!chunk.first) {
    matmul<T>(Cpu{}, o, chunk.output_stride, chunk.queries(), {state, chunk.key_size, true}, n, values, chunk.key_size,
              T(1), T(0));
    for (int64_t i = 0; i < n; ++i) {
      const T from_start = chunk.from_start(i);
      for (int64_t c = 0; c < values; ++c) o[i * chunk.output_stride + c] *= from_start;
    }
  }
  matmul<T>(Cpu{}, mixing, n, chunk.queries(), chunk.keys(true), n, n, chunk.key_size, T(1), T(0));
  for (int64_t i = 0; i < n * n; ++i) mixing[i] *= chunk.decay[i];
  matmul<T>(Cpu{}, o, chunk.output_stride, {mixing, n, false}, {u, values, false}, n, values, n, T(1),
            chunk.first ? T(0) : T(1));
}

/// One token of one head.
template <typename T>
void step_head(T* o, T* state, const T* q, const T* k, const T* v, T log_alpha, T beta, const DeltaRuleShape& shape) {
  const T alpha = std::exp(log_alpha);
  for (int64_t c = 0; c < shape.value_size; ++c) {
    T* row = state + c * shape.key_size;
    T predicted = 0;
    for (int64_t d = 0; d < shape.key_size; ++d) predicted += alpha * row[d] * k[d];
    const T update = beta * (v[c] - predicted);
    T sum = 0;
    for (int64_t d = 0; d < shape.key_size; ++d) {
      row[d] = alpha * row[d] + update * k[d];
      sum += row[d] * q[d];
    }
    o[c] = sum;
  }
}

template <typename T>
void step_token(T* o, T* state, const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape, int64_t token,
                int64_t head) {
  const int64_t at = token * shape.heads + head;
  const int64_t key = token * shape.key_stride() + head * shape.key_size;
  step_head(o + at * shape.value_size, state, in.q + key, in.k + key,
            in.v + token * shape.value_stride() + head * shape.value_size, in.log_alpha[at], in.beta[at], shape);
}

#define LONGHAUL_INSTANTIATE(T)                                               \
  template int64_t carve<T>(Call<T>&, void*, bool, int);                      \
  template struct HeadChunk<T>;                                               \
  template void solve_updates<T>(const HeadChunk<T>&, const T*, T*, int64_t); \
  template void advance_state<T>(const HeadChunk<T>&, T*, const T*, int64_t, T*)
LONGHAUL_INSTANTIATE(float);
LONGHAUL_INSTANTIATE(double);
#undef LONGHAUL_INSTANTIATE

}  // namespace delta_rule

template <typename T>
void gated_delta_rule_sequential(Cpu, T* o, T* state, const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape,
                                 const DocumentChunk* chunks, int64_t chunk_count) {
  for (int64_t head = 0; head < shape.heads; ++head) {
    for (int64_t index = 0; index < chunk_count; ++index) {
      if (chunks[index].starts_document) std::fill_n(state, shape.key_size * shape.value_size, T(0));
      for (int64_t t = chunks[index].begin; t < chunks[index].begin + chunks[index].length; ++t) {
        delta_rule::step_token(o, state, in, shape, t, head);
      }
    }
  }
}

template <typename T>
int64_t gated_delta_rule_workspace(const DeltaRuleShape& shape, int64_t chunk_count, int64_t chunk_size, bool backward,
                                   int threads) {
  const DeltaRuleInputs<T> none{};
  delta_rule::Call<T> call{
      .in = none, .shape = shape, .chunks = nullptr, .chunk_count = chunk_count, .chunk_size = chunk_size};
  return delta_rule::carve(call, nullptr, backward, threads);
}

template <typename T>
void gated_delta_rule_forward(Cpu, T* o, void* workspace, const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape,
                              const DocumentChunk* chunks, int64_t chunk_count, int64_t chunk_size) {
  delta_rule::Call<T> call{
      .in = in, .shape = shape, .chunks = chunks, .chunk_count = chunk_count, .chunk_size = chunk_size};
  delta_rule::carve(call, workspace, false, omp_get_max_threads());
#pragma omp parallel for schedule(dynamic)
  for (int64_t head = 0; head < shape.heads; ++head) {
    for (int64_t index = 0; index < chunk_count; ++index) {
      const delta_rule::HeadChunk<T> chunk(call, index, head);
      T* state = chunk.free_scratch;
      T* u = state + call.state_elements();
      T* weighted = u + chunk_size * shape.value_size;
      T* mixing = weighted + chunk_size * shape.value_size;
      delta_rule::solve_updates(chunk, state, u, shape.value_size);
      delta_rule::chunk_outputs(chunk, state, u, mixing,
                                o + chunks[index].begin * call.output_stride() + head * shape.value_size);
      delta_rule::advance_state(chunk, state, u, shape.value_size, weighted);
    }
  }
}

template <typename T>
void gated_delta_rule_step(Cpu, T* o, T* state, const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape) {
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t token = 0; token < shape.tokens; ++token) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      delta_rule::step_token(o, state + (token * shape.heads + head) * shape.key_size * shape.value_size, in, shape,
                             token, head);
    }
  }
}

#define LONGHAUL_INSTANTIATE(T)                                                                               \
  template void gated_delta_rule_sequential<T>(Cpu, T*, T*, const DeltaRuleInputs<T>&, const DeltaRuleShape&, \
                                               const DocumentChunk*, int64_t);                                \
  template int64_t gated_delta_rule_workspace<T>(const DeltaRuleShape&, int64_t, int64_t, bool, int);         \
  template void gated_delta_rule_forward<T>(Cpu, T*, void*, const DeltaRuleInputs<T>&, const DeltaRuleShape&, \
                                            const DocumentChunk*, int64_t, int64_t);                          \
  template void gated_delta_rule_step<T>(Cpu, T*, T*, const DeltaRuleInputs<T>&, const DeltaRuleShape&)
LONGHAUL_INSTANTIATE(float);
LONGHAUL_INSTANTIATE(double);
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
