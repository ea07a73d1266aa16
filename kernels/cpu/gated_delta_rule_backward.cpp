#include <algorithm>

#include "kernels/cpu/gated_delta_rule.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/vector_math.h"

namespace longhaul::kernels {
namespace delta_rule {

/// Gradients of one chunk of one head whose u and state_keys are known. state_gradient: of the state after the chunk on
/// entry, of the state before it on return.
template <typename T>
class HeadGradient {
 public:
  HeadGradient(const Call<T>& call, const DeltaRuleGradients<T>& out, const T* d_o, int64_t index, int64_t head)
      : chunk_(call, index, head), n_(chunk_.length), values_(chunk_.value_size), keys_(chunk_.key_size) {
    const int64_t begin = call.chunks[index].begin, rows = call.chunk_size;
    dq_ = out.q + begin * chunk_.key_stride + head * keys_;
    dk_ = out.k + begin * chunk_.key_stride + head * keys_;
    dv_ = out.v + begin * chunk_.value_stride + head * values_;
    dlog_alpha_ = out.log_alpha + begin * chunk_.heads + head;
    dbeta_ = out.beta + begin * chunk_.heads + head;
    do_ = d_o + begin * chunk_.output_stride + head * values_;
    dlog_decay_ = chunk_.log_decay + rows;
    column_sums_ = dlog_decay_ + rows;
    shares_ = column_sums_ + rows;
    du_ = chunk_.free_scratch;
    projected_ = du_ + rows * values_;
    u_transposed_ = projected_ + rows * values_;
    queries_ = u_transposed_ + rows * values_;
    from_state_ = queries_ + rows * keys_;
    square_ = from_state_ + rows * keys_;
    square2_ = square_ + rows * rows;
  }

  void run(int64_t index, bool last) {
    const T* state = chunk_.states + index * keys_ * values_;
    if (last) std::fill_n(chunk_.state_gradient, keys_ * values_, T(0));
    relate_keys(chunk_);
    fill_system(chunk_);
    mix_queries(chunk_);
    pack(queries_, chunk_.q, chunk_.key_stride, n_, keys_);
    pack_transposed(u_transposed_, chunk_.u, values_, n_, values_);
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
  /// c [n, columns] (+)= square [n, n] b, or its transpose times b; part: what of the factor holds something.
  void square_product(T* c, int64_t c_stride, const T* square, bool transposed, const T* b, int64_t b_stride,
                      int64_t columns, bool add, Part part) {
    tile_product<T>({.c = c,
                     .c_stride = c_stride,
                     .a = square,
                     .a_row = transposed ? 1 : n_,
                     .a_depth = transposed ? n_ : 1,
                     .b = b,
                     .b_stride = b_stride,
                     .rows = n_,
                     .columns = columns,
                     .depth = n_,
                     .add = add,
                     .a_part = part});
  }

  /// square_ij = rows_i . u_j for j <= i.
  void times_updates(const T* rows, int64_t stride) {
    tile_product<T>({.c = square_,
                     .c_stride = n_,
                     .a = rows,
                     .a_row = stride,
                     .a_depth = 1,
                     .b = u_transposed_,
                     .b_stride = n_,
                     .rows = n_,
                     .columns = n_,
                     .depth = values_,
                     .lower_c = true});
  }

  /// c [n, key_size] (+)= rows [n, value_size] state.
  void state_product(T* c, int64_t c_stride, const T* rows, const T* state, bool add) {
    tile_product<T>({.c = c,
                     .c_stride = c_stride,
                     .a = rows,
                     .a_row = values_,
                     .a_depth = 1,
                     .b = state,
                     .b_stride = keys_,
                     .rows = n_,
                     .columns = keys_,
                     .depth = values_,
                     .add = add});
  }

  /// o = mixing u with mixing_ij = decay_ij (q_i . k_j): du, dq, dk of the tokens inside the chunk.
  void through_outputs() {
    square_product(du_, values_, chunk_.mixing, true, do_, chunk_.output_stride, values_, false, Part::kUpper);
    times_updates(do_, chunk_.output_stride);
    add_pair_gradients(chunk_.mixing);
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j <= i; ++j) square_[i * n_ + j] *= chunk_.decay[i * n_ + j];
      std::fill(square_ + i * n_ + i + 1, square_ + (i + 1) * n_, T(0));
    }
    square_product(dq_, chunk_.key_stride, square_, false, chunk_.keys, keys_, keys_, false, Part::kLower);
    square_product(dk_, chunk_.key_stride, square_, true, queries_, keys_, keys_, false, Part::kUpper);
  }

  /// For a pair term square_ij * value_ij, j < i, whose value holds exp(l_i - l_j).
  void add_pair_gradients(const T* value) {
    std::fill_n(column_sums_, n_, 0.0);
    for (int64_t i = 1; i < n_; ++i) {
      const T *gradient = square_ + i * n_, *held = value + i * n_;
      // What l_i gains l_j loses: in double, where the product is exact and shares cancel in the sum over tokens.
      for (int64_t j = 0; j < i; ++j) {
        shares_[j] = static_cast<double>(gradient[j]) * static_cast<double>(held[j]);
        column_sums_[j] += shares_[j];
      }
      dlog_decay_[i] += simd::transform_sum<double>(
          i, [](auto share) { return share; }, shares_);
    }
    for (int64_t j = 0; j < n_; ++j) dlog_decay_[j] -= column_sums_[j];
  }

  /// S_after = exp(l_last) S_before + sum_j exp(l_last - l_j) u_j k_j^T.
  void through_state_after(const T* state) {
    T* const gradient = chunk_.state_gradient;
    matmul<T>(Cpu{}, projected_, values_, {chunk_.keys, keys_, false}, {gradient, keys_, true}, n_, values_, keys_,
              T(1), T(0));
    for (int64_t j = 0; j < n_; ++j) {
      const T weight = chunk_.to_end(j);
      const T* u = chunk_.u + j * values_;
      const double share = static_cast<double>(weight) * dot(u, projected_ + j * values_, values_);
      dlog_decay_[j] -= share;
      dlog_decay_[n_ - 1] += share;
      for (int64_t c = 0; c < values_; ++c) {
        du_[j * values_ + c] += weight * projected_[j * values_ + c];
        chunk_.weighted[j * values_ + c] = weight * u[c];
      }
    }
    state_product(dk_, chunk_.key_stride, chunk_.weighted, gradient, true);
    if (chunk_.first) return;
    const T decay = chunk_.from_start(n_ - 1);
    dlog_decay_[n_ - 1] += static_cast<double>(decay) * dot(state, gradient, keys_ * values_);
    for (int64_t e = 0; e < keys_ * values_; ++e) gradient[e] *= decay;
  }

  /// du <- du + system^T du from the last row on: the gradient of the right-hand side of (I - system) u = beta
  /// residual.
  void substitute_back() {
    constexpr int64_t kBlock = 16;
    for (int64_t begin = (n_ - 1) / kBlock * kBlock; begin >= 0; begin -= kBlock) {
      const int64_t end = std::min(begin + kBlock, n_);
      tile_product<T>({.c = du_ + begin * values_,
                       .c_stride = values_,
                       .a = chunk_.system + end * n_ + begin,
                       .a_row = 1,
                       .a_depth = n_,
                       .b = du_ + end * values_,
                       .b_stride = values_,
                       .rows = end - begin,
                       .columns = values_,
                       .depth = n_ - end,
                       .add = true});
      for (int64_t j = end - 1; j >= begin; --j) {
        for (int64_t i = j + 1; i < end; ++i) {
          add_scaled(du_ + j * values_, chunk_.system[i * n_ + j], du_ + i * values_, values_);
        }
      }
    }
  }

  void through_system() {
    substitute_back();
    times_updates(du_, values_);
    add_pair_gradients(chunk_.system);
    for (int64_t i = 0; i < n_; ++i) {
      const T beta = chunk_.beta[i * chunk_.heads];
      T* row = square_ + i * n_;
      for (int64_t j = 0; j < i; ++j) row[j] *= chunk_.decay[i * n_ + j];
      dbeta_[i * chunk_.heads] = static_cast<T>(dot(du_ + i * values_, chunk_.residual + i * values_, values_) -
                                                dot(row, chunk_.key_products + i * n_, i));
      square2_[i * n_ + i] = 0;
      for (int64_t j = 0; j < i; ++j) square2_[i * n_ + j] = square2_[j * n_ + i] = -beta * row[j];
      for (int64_t c = 0; c < values_; ++c) {
        du_[i * values_ + c] *= beta;
        dv_[i * chunk_.value_stride + c] = du_[i * values_ + c];
      }
    }
    square_product(dk_, chunk_.key_stride, square2_, false, chunk_.keys, keys_, keys_, true, Part::kAll);
  }

  /// exp(l_i) S_before k_i is taken from the residual, exp(l_i) S_before q_i is added to o_i.
  void through_state_before(const T* state) {
    if (chunk_.first) return;
    T* const weighted = chunk_.weighted;
    for (int64_t i = 0; i < n_; ++i) {
      const T decay = chunk_.from_start(i);
      dlog_decay_[i] -= static_cast<double>(decay) * dot(du_ + i * values_, chunk_.state_keys + i * values_, values_);
      for (int64_t c = 0; c < values_; ++c) {
        projected_[i * values_ + c] = -decay * du_[i * values_ + c];
        weighted[i * values_ + c] = decay * do_[i * chunk_.output_stride + c];
      }
    }
    state_product(dk_, chunk_.key_stride, projected_, state, true);
    state_product(from_state_, keys_, weighted, state, false);
    for (int64_t i = 0; i < n_; ++i) {
      dlog_decay_[i] += dot(queries_ + i * keys_, from_state_ + i * keys_, keys_);
      for (int64_t d = 0; d < keys_; ++d) dq_[i * chunk_.key_stride + d] += from_state_[i * keys_ + d];
    }
    matmul<T>(Cpu{}, chunk_.state_gradient, keys_, {projected_, values_, true}, {chunk_.keys, keys_, false}, values_,
              keys_, n_, T(1), T(1));
    matmul<T>(Cpu{}, chunk_.state_gradient, keys_, {weighted, values_, true}, {queries_, keys_, false}, values_, keys_,
              n_, T(1), T(1));
  }

  HeadChunk<T> chunk_;
  int64_t n_, values_, keys_;
  T *dq_, *dk_, *dv_, *dlog_alpha_, *dbeta_;
  const T* do_;
  double *dlog_decay_, *column_sums_, *shares_;  ///< [chunk]
  T *du_, *projected_;                           ///< [chunk, value_size]
  T* u_transposed_;                              ///< [value_size, chunk]
  T *queries_, *from_state_;                     ///< [chunk, key_size]
  T *square_, *square2_;                         ///< [chunk, chunk]
};

/// Runs the recurrence of one head forward, keeping the state before every chunk, the updates and state_keys.
template <typename T>
void solve_head(const Call<T>& call, int64_t head) {
  for (int64_t index = 0; index < call.chunk_count; ++index) {
    const HeadChunk<T> chunk(call, index, head);
    if (!chunk.first)
      std::copy_n(chunk.running_state, call.state_elements(), chunk.states + index * call.state_elements());
    solve_updates(chunk, chunk.running_state);
    if (index + 1 < call.chunk_count && !call.chunks[index + 1].starts_document) {
      advance_state(chunk, chunk.running_state);
    }
  }
}

template <typename T>
void differentiate_head(const Call<T>& call, const DeltaRuleGradients<T>& gradients, const T* d_o, int64_t head) {
  for (int64_t index = call.chunk_count - 1; index >= 0; --index) {
    const bool last = index + 1 == call.chunk_count || call.chunks[index + 1].starts_document;
    HeadGradient<T> gradient(call, gradients, d_o, index, head);
    gradient.run(index, last);
  }
}

}  // namespace delta_rule

template <typename T>
void gated_delta_rule_backward(Cpu, const DeltaRuleGradients<T>& gradients, void* workspace, const T* d_o,
                               const DeltaRuleInputs<T>& in, const DeltaRuleShape& shape, const DocumentChunk* chunks,
                               int64_t chunk_count, int64_t chunk_size) {
  delta_rule::Call<T> call{.in = in,
                           .shape = shape,
                           .chunks = chunks,
                           .chunk_count = chunk_count,
                           .chunk_size = chunk_size,
                           .backward = true};
  delta_rule::carve(call, workspace, omp_get_max_threads());
#pragma omp parallel for schedule(dynamic)
  for (int64_t head = 0; head < shape.heads; ++head) {
    delta_rule::solve_head(call, head);
    delta_rule::differentiate_head(call, gradients, d_o, head);
  }
}

template void gated_delta_rule_backward<float>(Cpu, const DeltaRuleGradients<float>&, void*, const float*,
                                               const DeltaRuleInputs<float>&, const DeltaRuleShape&,
                                               const DocumentChunk*, int64_t, int64_t);
template void gated_delta_rule_backward<double>(Cpu, const DeltaRuleGradients<double>&, void*, const double*,
                                                const DeltaRuleInputs<double>&, const DeltaRuleShape&,
                                                const DocumentChunk*, int64_t, int64_t);

}  // namespace longhaul::kernels
