#include <algorithm>

#include "kernels/cpu/gated_delta_rule.h"
#include "kernels/cpu/vector_math.h"

namespace longhaul::kernels {
namespace delta_rule {

/// Gradients of one chunk of one head. state: before the chunk; state_gradient: of the state after it on entry, of the
/// state before it on return.
template <typename T>
class HeadGradient {
 public:
  HeadGradient(const Call<T>& call, const DeltaRuleGradients<T>& out, const T* d_o, int64_t index, int64_t head)
      : chunk_(call, index, head), n_(chunk_.length), values_(chunk_.value_size), keys_(chunk_.key_size) {
    const int64_t begin = call.chunks[index].begin;
    dq_ = out.q + begin * chunk_.key_stride + head * keys_;
    dk_ = out.k + begin * chunk_.key_stride + head * keys_;
    dv_ = out.v + begin * chunk_.value_stride + head * values_;
    dlog_alpha_ = out.log_alpha + begin * chunk_.heads + head;
    dbeta_ = out.beta + begin * chunk_.heads + head;
    do_ = d_o + begin * chunk_.output_stride + head * values_;
    u_ = call.updates + begin * chunk_.output_stride + head * values_;
    dlog_decay_ = chunk_.log_decay + call.chunk_size;
    state_gradient_ = chunk_.free_scratch;  // stays the same over the chunks of a head: same thread, same place
    du_ = state_gradient_ + 2 * call.state_elements();
    weighted_ = du_ + call.chunk_size * values_;
    projected_ = weighted_ + call.chunk_size * values_;
    mixing_ = projected_ + 2 * call.chunk_size * values_;
    square_ = mixing_ + call.chunk_size * call.chunk_size;
    square2_ = square_ + call.chunk_size * call.chunk_size;
    from_state_ = square2_ + call.chunk_size * call.chunk_size;
  }

  void run(const T* state, bool last) {
    if (last) std::fill_n(state_gradient_, keys_ * values_, T(0));
    solve_updates(chunk_, state, u_, chunk_.output_stride);
    std::fill_n(dlog_decay_, n_, 0.0);
    through_outputs();
    through_state_after(state);
    through_system();
    through_state_before(state);
    double sum = 0;
    for (int64_t i = n_ - 1; i >= 0; --i) {
      sum += dlog_decay_[i];
      dlog_alpha_[i * chunk_.heads] = static_cast<T>(sum);
    }
  }

 private:
  /// o = mixing u with mixing_ij = decay_ij (q_i . k_j): du, dq, dk of the tokens inside the chunk.
  void through_outputs() {
    matmul<T>(Cpu{}, mixing_, n_, chunk_.queries(), chunk_.keys(true), n_, n_, keys_, T(1), T(0));
    for (int64_t i = 0; i < n_ * n_; ++i) mixing_[i] *= chunk_.decay[i];
    matmul<T>(Cpu{}, du_, values_, {mixing_, n_, true}, {do_, chunk_.output_stride, false}, n_, values_, n_, T(1),
              T(0));
    matmul<T>(Cpu{}, square_, n_, {do_, chunk_.output_stride, false}, {u_, chunk_.output_stride, true}, n_, n_, values_,
              T(1), T(0));
    add_pair_gradients(square_, mixing_, n_);
    for (int64_t i = 0; i < n_ * n_; ++i) square_[i] *= chunk_.decay[i];
    matmul<T>(Cpu{}, dq_, chunk_.key_stride, {square_, n_, false}, chunk_.keys(), n_, keys_, n_, T(1), T(0));
    matmul<T>(Cpu{}, dk_, chunk_.key_stride, {square_, n_, true}, chunk_.queries(), n_, keys_, n_, T(1), T(0));
  }

  /// For a pair term gradient_ij * value_ij whose value holds exp(l_i - l_j).
  void add_pair_gradients(const T* gradient, const T* value, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        const double share = static_cast<double>(gradient[i * n + j]) * static_cast<double>(value[i * n + j]);
        dlog_decay_[i] += share;
        dlog_decay_[j] -= share;
      }
    }
  }

  /// S_after = exp(l_last) S_before + sum_j exp(l_last - l_j) u_j k_j^T.
  void through_state_after(const T* state) {
    matmul<T>(Cpu{}, projected_, values_, chunk_.keys(), {state_gradient_, keys_, true}, n_, values_, keys_, T(1),
              T(0));
    for (int64_t j = 0; j < n_; ++j) {
      const T weight = chunk_.to_end(j);
      const T* u = u_ + j * chunk_.output_stride;
      const double share = static_cast<double>(weight) * dot(u, projected_ + j * values_, values_);
      dlog_decay_[j] -= share;
      dlog_decay_[n_ - 1] += share;
      for (int64_t c = 0; c < values_; ++c) {
        du_[j * values_ + c] += weight * projected_[j * values_ + c];
        weighted_[j * values_ + c] = weight * u[c];
      }
    }
    matmul<T>(Cpu{}, dk_, chunk_.key_stride, {weighted_, values_, false}, {state_gradient_, keys_, false}, n_, keys_,
              values_, T(1), T(1));
    if (chunk_.first) return;
    const T decay = chunk_.from_start(n_ - 1);
    dlog_decay_[n_ - 1] += static_cast<double>(decay) * dot(state, state_gradient_, keys_ * values_);
    for (int64_t e = 0; e < keys_ * values_; ++e) state_gradient_[e] *= decay;
  }

  /// (I + system) u = beta residual: du becomes the gradient of the right-hand side by back substitution.
  void through_system() {
    for (int64_t j = n_ - 1; j >= 0; --j) {
      for (int64_t i = j + 1; i < n_; ++i) {
        const T factor = chunk_.system[i * n_ + j];
        for (int64_t c = 0; c < values_; ++c) du_[j * values_ + c] -= factor * du_[i * values_ + c];
      }
    }
    matmul<T>(Cpu{}, square_, n_, {du_, values_, false}, {u_, chunk_.output_stride, true}, n_, n_, values_, T(-1),
              T(0));
    add_pair_gradients(square_, chunk_.system, n_);
    std::fill_n(square2_, n_ * n_, T(0));
    for (int64_t i = 0; i < n_; ++i) {
      const T beta = chunk_.beta[i * chunk_.heads];
      double beta_gradient = dot(du_ + i * values_, chunk_.residual + i * values_, values_);
      for (int64_t j = 0; j < i; ++j) {
        const T decayed = square_[i * n_ + j] * chunk_.decay[i * n_ + j];
        beta_gradient += static_cast<double>(decayed) * static_cast<double>(chunk_.key_products[i * n_ + j]);
        square2_[i * n_ + j] = square2_[j * n_ + i] = beta * decayed;
      }
      dbeta_[i * chunk_.heads] = static_cast<T>(beta_gradient);
      for (int64_t c = 0; c < values_; ++c) {
        du_[i * values_ + c] *= beta;
        dv_[i * chunk_.value_stride + c] = du_[i * values_ + c];
      }
    }
    matmul<T>(Cpu{}, dk_, chunk_.key_stride, {square2_, n_, false}, chunk_.keys(), n_, keys_, n_, T(1), T(1));
  }

  /// exp(l_i) S_before k_i is taken from the residual, exp(l_i) S_before q_i is added to o_i.
  void through_state_before(const T* state) {
    if (chunk_.first) return;
    for (int64_t i = 0; i < n_; ++i) {
      const T decay = chunk_.from_start(i);
      dlog_decay_[i] -= static_cast<double>(decay) * dot(du_ + i * values_, chunk_.state_keys + i * values_, values_);
      for (int64_t c = 0; c < values_; ++c) {
        projected_[i * values_ + c] = -decay * du_[i * values_ + c];
        weighted_[i * values_ + c] = decay * do_[i * chunk_.output_stride + c];
      }
    }
    matmul<T>(Cpu{}, dk_, chunk_.key_stride, {projected_, values_, false}, {state, keys_, false}, n_, keys_, values_,
              T(1), T(1));
    matmul<T>(Cpu{}, from_state_, keys_, {weighted_, values_, false}, {state, keys_, false}, n_, keys_, values_, T(1),
              T(0));
    for (int64_t i = 0; i < n_; ++i) {
      dlog_decay_[i] += dot(chunk_.q + i * chunk_.key_stride, from_state_ + i * keys_, keys_);
      for (int64_t d = 0; d < keys_; ++d) dq_[i * chunk_.key_stride + d] += from_state_[i * keys_ + d];
    }
    matmul<T>(Cpu{}, state_gradient_, keys_, {projected_, values_, true}, chunk_.keys(), values_, keys_, n_, T(1),
              T(1));
    matmul<T>(Cpu{}, state_gradient_, keys_, {weighted_, values_, true}, chunk_.queries(), values_, keys_, n_, T(1),
              T(1));
  }

  HeadChunk<T> chunk_;
  int64_t n_, values_, keys_;
  T *dq_, *dk_, *dv_, *dlog_alpha_, *dbeta_;
  const T* do_;
  T* u_;
  double* dlog_decay_;
  T* state_gradient_;
  T *du_, *weighted_, *projected_;  ///< [chunk, value_size]
  T *mixing_, *square_, *square2_;  ///< [chunk, chunk]
  T* from_state_;                   ///< [chunk, key_size]
};

/// Runs the recurrence of one head forward, keeping the state before every chunk.
template <typename T>
void recompute_states(const Call<T>& call, int64_t head) {
  for (int64_t index = 0; index < call.chunk_count; ++index) {
    const HeadChunk<T> chunk(call, index, head);
    T* running = chunk.free_scratch;
    T* u = running + call.state_elements();
    T* weighted = u + call.chunk_size * chunk.value_size;
    std::copy_n(running, call.state_elements(),
                call.states + (index * call.shape.heads + head) * call.state_elements());
    if (index + 1 == call.chunk_count || call.chunks[index + 1].starts_document) continue;
    solve_updates(chunk, running, u, chunk.value_size);
    advance_state(chunk, running, u, chunk.value_size, weighted);
  }
}

}  // namespace delta_rule

template <typename T>
void gated_delta_rule_backward(Cpu, const DeltaRuleGradients<T>& gradients, void* workspace, const T* d_o,
                               const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape, const DocumentChunk* chunks,
                               int64_t chunk_count, int64_t chunk_size) {
  delta_rule::Call<T> call{
      .in = in, .shape = shape, .chunks = chunks, .chunk_count = chunk_count, .chunk_size = chunk_size};
  delta_rule::carve(call, workspace, true, omp_get_max_threads());
#pragma omp parallel for schedule(dynamic)
  for (int64_t head = 0; head < shape.heads; ++head) {
    delta_rule::recompute_states(call, head);
    for (int64_t index = chunk_count - 1; index >= 0; --index) {
      const bool last = index + 1 == chunk_count || chunks[index + 1].starts_document;
      delta_rule::HeadGradient<T> gradient(call, gradients, d_o, index, head);
      gradient.run(call.states + (index * shape.heads + head) * call.state_elements(), last);
    }
  }
}

template void gated_delta_rule_backward<float>(Cpu, const DeltaRuleGradients<float>&, void*, const float*,
                                               const DeltaRuleInputs<float>&, const DeltaRuleShape&,
                                               const DocumentChunk*, int64_t, int64_t);
template void gated_delta_rule_backward<double>(Cpu, const DeltaRuleGradients<double>&, void*, const double*,
                                                const DeltaRuleInputs<double>&, const DeltaRuleShape&,
                                                const DocumentChunk*, int64_t, int64_t);

}  // namespace longhaul::kernels
