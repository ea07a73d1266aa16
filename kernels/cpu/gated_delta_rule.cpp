#include "kernels/gated_delta_rule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/gated_delta_rule.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/error.h"

namespace longhaul::kernels {
namespace delta_rule {

template <typename T>
int64_t carve(Call<T>& call, void* memory, int threads) {
  const DeltaRuleShape& shape = call.shape;
  WorkspaceCarver carver(memory);
  const int64_t n = call.chunk_size, square = n * n, values = n * shape.value_size, keys = n * shape.key_size;
  const int64_t tokens = call.backward ? shape.tokens : n, states = call.backward ? call.chunk_count : 0;
  // As HeadChunk hands it out.
  call.thread_elements =
      (2 + states) * call.state_elements() + 2 * tokens * shape.value_size + 4 * square + 2 * values + 2 * keys;
  if (call.backward) call.thread_elements += 3 * values + 2 * keys + 2 * square;
  call.thread_scratch = carver.template take<T>(call.thread_elements * threads);
  call.thread_sums = carver.template take<double>(4 * n * threads);
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
  log_decay = call.thread_sums + omp_get_thread_num() * 4 * call.chunk_size;
  T* scratch = call.thread_scratch + omp_get_thread_num() * call.thread_elements;
  const auto take = [&scratch](int64_t count) { return std::exchange(scratch, scratch + count); };
  const int64_t square = call.chunk_size * call.chunk_size, values = call.chunk_size * value_size;
  state_gradient = take(call.state_elements());
  running_state = take(call.state_elements());
  // Backward: one place per token, since all chunks of the head are solved before the first is differentiated.
  states = take(call.backward ? call.chunk_count * call.state_elements() : 0);
  u = take(call.backward ? call.shape.tokens * value_size : values) + (call.backward ? begin * value_size : 0);
  state_keys = take(call.backward ? call.shape.tokens * value_size : values) + (call.backward ? begin * value_size : 0);
  decay = take(square);
  key_products = take(square);
  system = take(square);
  mixing = take(square);
  residual = take(values);
  weighted = take(values);
  keys = take(call.chunk_size * key_size);
  keys_transposed = take(call.chunk_size * key_size);
  free_scratch = scratch;
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
  constexpr int64_t kWidth = simd::kWidth<T>;
  const int64_t n = chunk.length;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) chunk.log_decay[i] = sum += static_cast<double>(chunk.log_alpha[i * chunk.heads]);
  for (int64_t i = 0; i < n; ++i) {
    T* row = chunk.decay + i * n;
    const int64_t end = std::min(n, (i + kWidth) / kWidth * kWidth);  // whole vectors; what lies beyond i is replaced
    for (int64_t j = 0; j < end; ++j) {
      row[j] = static_cast<T>(std::min(chunk.log_decay[i] - chunk.log_decay[j], 0.0));
    }
    exp_in_place(row, end);
    std::fill(row + i + 1, row + n, T(0));
  }
}

template <typename T>
void relate_keys(const HeadChunk<T>& chunk) {
  const int64_t n = chunk.length;
  fill_decays(chunk);
  pack(chunk.keys, chunk.k, chunk.key_stride, n, chunk.key_size);
  pack_transposed(chunk.keys_transposed, chunk.k, chunk.key_stride, n, chunk.key_size);
  tile_product<T>({.c = chunk.key_products,
                   .c_stride = n,
                   .a = chunk.keys,
                   .a_row = chunk.key_size,
                   .a_depth = 1,
                   .b = chunk.keys_transposed,
                   .b_stride = n,
                   .rows = n,
                   .columns = n,
                   .depth = chunk.key_size,
                   .lower_c = true});
}

template <typename T>
void fill_system(const HeadChunk<T>& chunk) {
  const int64_t n = chunk.length, values = chunk.value_size;
  for (int64_t i = 0; i < n; ++i) {
    const T beta = chunk.beta[i * chunk.heads], from_start = chunk.from_start(i);
    T* row = chunk.system + i * n;
    for (int64_t j = 0; j < i; ++j) row[j] = -beta * chunk.decay[i * n + j] * chunk.key_products[i * n + j];
    std::fill(row + i, row + n, T(0));
    T* residual = chunk.residual + i * values;
    const T *v = chunk.v + i * chunk.value_stride, *held = chunk.state_keys + i * values;
    if (chunk.first) {
      std::copy_n(v, values, residual);
    } else {
      for (int64_t c = 0; c < values; ++c) residual[c] = v[c] - from_start * held[c];
    }
  }
}

/// u = beta residual + system u, from the first row on; most of it as products of blocks of rows.
template <typename T>
void substitute(const HeadChunk<T>& chunk) {
  constexpr int64_t kBlock = 16;
  const int64_t n = chunk.length, values = chunk.value_size;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, n);
    for (int64_t i = begin; i < end; ++i) {
      const T beta = chunk.beta[i * chunk.heads];
      for (int64_t c = 0; c < values; ++c) chunk.u[i * values + c] = beta * chunk.residual[i * values + c];
    }
    tile_product<T>({.c = chunk.u + begin * values,
                     .c_stride = values,
                     .a = chunk.system + begin * n,
                     .a_row = n,
                     .a_depth = 1,
                     .b = chunk.u,
                     .b_stride = values,
                     .rows = end - begin,
                     .columns = values,
                     .depth = begin,
                     .add = true});
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = begin; j < i; ++j)
        add_scaled(chunk.u + i * values, chunk.system[i * n + j], chunk.u + j * values, values);
    }
  }
}

template <typename T>
void solve_updates(const HeadChunk<T>& chunk, const T* state) {
  relate_keys(chunk);
  if (!chunk.first) {
    matmul<T>(Cpu{}, chunk.state_keys, chunk.value_size, {chunk.keys, chunk.key_size, false},
              {state, chunk.key_size, true}, chunk.length, chunk.value_size, chunk.key_size, T(1), T(0));
  }
  fill_system(chunk);
  substitute(chunk);
}

template <typename T>
void mix_queries(const HeadChunk<T>& chunk) {
  const int64_t n = chunk.length;
  tile_product<T>({.c = chunk.mixing,
                   .c_stride = n,
                   .a = chunk.q,
                   .a_row = chunk.key_stride,
                   .a_depth = 1,
                   .b = chunk.keys_transposed,
                   .b_stride = n,
                   .rows = n,
                   .columns = n,
                   .depth = chunk.key_size,
                   .lower_c = true});
  for (int64_t i = 0; i < n; ++i) {
    T* row = chunk.mixing + i * n;
    for (int64_t j = 0; j <= i; ++j) row[j] *= chunk.decay[i * n + j];
    std::fill(row + i + 1, row + n, T(0));
  }
}

template <typename T>
void advance_state(const HeadChunk<T>& chunk, T* state) {
  const int64_t n = chunk.length, values = chunk.value_size;
  for (int64_t j = 0; j < n; ++j) {
    const T weight = chunk.to_end(j);
    for (int64_t c = 0; c < values; ++c) chunk.weighted[j * values + c] = weight * chunk.u[j * values + c];
  }
  matmul<T>(Cpu{}, state, chunk.key_size, {chunk.weighted, values, true}, {chunk.keys, chunk.key_size, false}, values,
            chunk.key_size, n, T(1), chunk.first ? T(0) : chunk.from_start(n - 1));
}

/// o_i = exp(l_i) S_before q_i + sum_{j <= i} decay_ij (q_i . k_j) u_j.
template <typename T>
void chunk_outputs(const HeadChunk<T>& chunk, const T* state, T* o) {
  const int64_t n = chunk.length, values = chunk.value_size;
  if (!chunk.first) {
    matmul<T>(Cpu{}, o, chunk.output_stride, {chunk.q, chunk.key_stride, false}, {state, chunk.key_size, true}, n,
              values, chunk.key_size, T(1), T(0));
    for (int64_t i = 0; i < n; ++i) {
      const T from_start = chunk.from_start(i);
      for (int64_t c = 0; c < values; ++c) o[i * chunk.output_stride + c] *= from_start;
    }
  }
  mix_queries(chunk);
  tile_product<T>({.c = o,
                   .c_stride = chunk.output_stride,
                   .a = chunk.mixing,
                   .a_row = n,
                   .a_depth = 1,
                   .b = chunk.u,
                   .b_stride = values,
                   .rows = n,
                   .columns = values,
                   .depth = n,
                   .add = !chunk.first,
                   .a_part = Part::kLower});
}

/// With beta |k|^2 > 2 the recurrence itself grows without bound, and so does the inverse of the system.
template <typename T>
void check_keys(const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape) {
  for (int64_t t = 0; t < shape.tokens; ++t) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const T* k = in.k + t * shape.key_stride() + h * shape.key_size;
      const double square = dot(k, k, shape.key_size);
      if (static_cast<double>(in.beta[t * shape.heads + h]) * square > 2.001) {
        throw internal_error("gated_delta_rule: key of token {} head {} has norm {:.4g}; keys must be L2-normalised", t,
                             h, std::sqrt(square));
      }
    }
  }
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

#define LONGHAUL_INSTANTIATE(T)                                  \
  template int64_t carve<T>(Call<T>&, void*, int);               \
  template struct HeadChunk<T>;                                  \
  template void relate_keys<T>(const HeadChunk<T>&);             \
  template void fill_system<T>(const HeadChunk<T>&);             \
  template void solve_updates<T>(const HeadChunk<T>&, const T*); \
  template void mix_queries<T>(const HeadChunk<T>&);             \
  template void advance_state<T>(const HeadChunk<T>&, T*)
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
  delta_rule::Call<T> call{.in = none,
                           .shape = shape,
                           .chunks = nullptr,
                           .chunk_count = chunk_count,
                           .chunk_size = chunk_size,
                           .backward = backward};
  return delta_rule::carve(call, nullptr, threads);
}

template <typename T>
void gated_delta_rule_forward(Cpu, T* o, void* workspace, const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape,
                              const DocumentChunk* chunks, int64_t chunk_count, int64_t chunk_size) {
  delta_rule::Call<T> call{.in = in,
                           .shape = shape,
                           .chunks = chunks,
                           .chunk_count = chunk_count,
                           .chunk_size = chunk_size,
                           .backward = false};
  delta_rule::carve(call, workspace, omp_get_max_threads());
  delta_rule::check_keys(in, shape);
#pragma omp parallel for schedule(dynamic)
  for (int64_t head = 0; head < shape.heads; ++head) {
    for (int64_t index = 0; index < chunk_count; ++index) {
      const delta_rule::HeadChunk<T> chunk(call, index, head);
      delta_rule::solve_updates(chunk, chunk.running_state);
      delta_rule::chunk_outputs(chunk, chunk.running_state,
                                o + chunks[index].begin * call.output_stride() + head * shape.value_size);
      delta_rule::advance_state(chunk, chunk.running_state);
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
