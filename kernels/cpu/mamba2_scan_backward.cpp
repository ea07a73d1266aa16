#include <algorithm>

#include "kernels/cpu/mamba2_scan.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/vector_math.h"

namespace longhaul::kernels {
namespace mamba2 {

/// Gradient that each chunk's outputs alone send to the state before it, into state_gradients.
template <typename T>
void local_state_gradients(const Scan<T>& scan, const T* dy) {
  const int64_t columns = scan.group_columns(), inner = scan.inner();
#pragma omp parallel for schedule(dynamic)
  for (int64_t index = 0; index < scan.chunk_count; ++index) {
    const DocumentChunk& chunk = scan.chunks[index];
    if (chunk.starts_document) continue;
    for (int64_t group = 0; group < scan.shape.groups; ++group) {
      T* decayed = scan.scratch();
      decay_rows(scan, chunk, group, dy + chunk.begin * inner + group * columns, inner, decayed);
      matmul<T>(Cpu{}, scan.state_gradient(index) + group * columns, inner, scan.c(chunk, group, true),
                {decayed, columns, false}, scan.shape.state_size, columns, chunk.length, T(1), T(0));
    }
  }
}

/// Turns them into the gradient of the state after each chunk, walking back from the end of each document.
template <typename T>
void pass_state_gradients(const Scan<T>& scan) {
  const int64_t inner = scan.inner(), size = scan.shape.head_size;
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < scan.shape.state_size; ++n) {
    T* running = scan.running + n * inner;
    for (int64_t index = scan.chunk_count - 1; index >= 0; --index) {
      T* row = scan.state_gradient(index) + n * inner;
      if (!scan.continues(index)) std::fill_n(running, inner, T(0));
      const bool starts = scan.chunks[index].starts_document;
      for (int64_t h = 0; h < scan.shape.heads; ++h) {
        const T decay = scan.chunk_decay(index, h);
        for (int64_t p = h * size; p < (h + 1) * size; ++p) {
          const T local = starts ? T(0) : row[p];
          row[p] = running[p];
          running[p] = decay * running[p] + local;
        }
      }
    }
  }
}

/// Gradients of one chunk. Sums over heads go through the K axis of products or in head order; the gradients of the
/// cumulative log decays and of dt, [heads of the group, length], are collected in double.
template <typename T>
class ChunkGradient {
 public:
  ChunkGradient(const Scan<T>& scan, const Mamba2Gradients<T>& out, const T* dy, int64_t index)
      : scan_(scan), shape_(scan.shape), out_(out), dy_(dy), index_(index), chunk_(scan.chunks[index]) {
    const int64_t square = scan.chunk_size * scan.chunk_size, wide = scan.chunk_size * scan.inner();
    weighted_ = scan.scratch();
    projected_ = weighted_ + wide;
    products_ = projected_ + wide;
    mixing_ = products_ + square, outer_ = mixing_ + square, outer_sum_ = outer_ + square;
    head_x_ = outer_sum_ + square;
    head_dy_ = head_x_ + scan.chunk_size * shape_.head_size;
    dt_ = head_dy_ + scan.chunk_size * shape_.head_size;
    head_state_ = dt_ + scan.chunk_size;
    head_rows_ = head_state_ + shape_.head_size * shape_.state_size;
    column_sums_ = scan.rows() + scan.chunk_size, shares_ = column_sums_ + scan.chunk_size;
    log_decay_gradient_ = scan.token_sums + 2 * omp_get_thread_num() * shape_.heads * scan.chunk_size;
    dt_gradient_ = log_decay_gradient_ + shape_.heads * scan.chunk_size;
  }

  void run() {
    const int64_t n = length();
    for (int64_t group = 0; group < shape_.groups; ++group) {
      matmul<T>(Cpu{}, products_, n, scan_.c(chunk_, group, false), scan_.b(chunk_, group, true), n, n,
                shape_.state_size, T(1), T(0));
      std::fill_n(outer_sum_, n * n, T(0));
      std::fill_n(log_decay_gradient_, scan_.group_heads() * n, 0.0);
      std::fill_n(dt_gradient_, scan_.group_heads() * n, 0.0);
      for (int64_t h = 0; h < scan_.group_heads(); ++h) inside_chunk(group * scan_.group_heads() + h, h);
      projections_inside_chunk(group);
      if (!chunk_.starts_document) through_state_before(group);
      if (scan_.continues(index_)) through_state_after(group);
      if (!chunk_.starts_document && scan_.continues(index_)) carried_state(group);
      finish(group);
    }
  }

 private:
  int64_t length() const { return chunk_.length; }
  T* dx(int64_t i, int64_t column) const { return out_.xbc + (chunk_.begin + i) * shape_.xbc_columns() + column; }
  const T* dy(int64_t i, int64_t column) const { return dy_ + (chunk_.begin + i) * scan_.inner() + column; }

  void inside_chunk(int64_t head, int64_t h) {
    const int64_t size = shape_.head_size, n = length(), stride = shape_.xbc_columns();
    pack_transposed(head_x_, scan_.x(chunk_.begin) + head * size, stride, n, size);
    pack(head_dy_, dy(0, head * size), scan_.inner(), n, size);
    for (int64_t i = 0; i < n; ++i) dt_[i] = scan_.in.dt[(chunk_.begin + i) * shape_.heads + head];
    tile_product<T>({.c = outer_,
                     .c_stride = n,
                     .a = head_dy_,
                     .a_row = size,
                     .a_depth = 1,
                     .b = head_x_,
                     .b_stride = n,
                     .rows = n,
                     .columns = n,
                     .depth = size,
                     .lower_c = true});
    pair_decays(scan_, chunk_, head, mixing_);
    pair_gradients(h);
    tile_product<T>({.c = dx(0, head * size),
                     .c_stride = stride,
                     .a = mixing_,
                     .a_row = 1,
                     .a_depth = n,
                     .b = head_dy_,
                     .b_stride = size,
                     .rows = n,
                     .columns = size,
                     .depth = n,
                     .a_part = Part::kUpper});
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t p = 0; p < size; ++p) dx(i, head * size)[p] *= dt_[i];
    }
  }

  /// Each pair sends decay_ij (C_i . B_j) dt_j x_j to y_i. mixing: from the decays to decay (C . B).
  void pair_gradients(int64_t h) {
    const int64_t n = length();
    double* dl = log_decay_gradient_ + h * n;
    double* ddt = dt_gradient_ + h * n;
    std::fill_n(column_sums_, n, 0.0);
    for (int64_t i = 0; i < n; ++i) {
      T *mixing = mixing_ + i * n, *outer = outer_ + i * n, *products = products_ + i * n, *sum = outer_sum_ + i * n;
      for (int64_t j = 0; j <= i; ++j) {
        const T decayed = mixing[j] * outer[j];
        sum[j] += decayed * dt_[j];
        mixing[j] *= products[j];
        outer[j] *= mixing[j];
      }
      // What l_i gains l_j loses: in double, where the product is exact and huge shares cancel in the sum over tokens.
      for (int64_t j = 0; j <= i; ++j) {
        column_sums_[j] += static_cast<double>(outer[j]);
        shares_[j] = static_cast<double>(outer[j]) * static_cast<double>(dt_[j]);
      }
      dl[i] += simd::transform_sum<double>(
          i + 1, [](auto share) { return share; }, shares_);
    }
    for (int64_t j = 0; j < n; ++j) {
      ddt[j] += column_sums_[j];
      dl[j] -= column_sums_[j] * static_cast<double>(dt_[j]);
    }
  }

  void projections_inside_chunk(int64_t group) {
    const int64_t n = length(), states = shape_.state_size, stride = shape_.xbc_columns();
    matmul<T>(Cpu{}, dx(0, scan_.c_column(group)), stride, {outer_sum_, n, false}, scan_.b(chunk_, group, false), n,
              states, n, T(1), T(0));
    matmul<T>(Cpu{}, dx(0, scan_.b_column(group)), stride, {outer_sum_, n, true}, scan_.c(chunk_, group, false), n,
              states, n, T(1), T(0));
  }

  /// y_i has exp(l_i) S_before C_i. Head by head: dy_i S_before is what C_i receives, and with C_i what l_i does.
  void through_state_before(int64_t group) {
    const int64_t n = length(), states = shape_.state_size, columns = scan_.group_columns(), size = shape_.head_size;
    decay_rows(scan_, chunk_, group, dy(0, group * columns), scan_.inner(), weighted_);
    for (int64_t h = 0; h < scan_.group_heads(); ++h) {
      pack_transposed(head_state_, scan_.state(index_) + group * columns + h * size, scan_.inner(), states, size);
      tile_product<T>({.c = head_rows_,
                       .c_stride = states,
                       .a = weighted_ + h * size,
                       .a_row = columns,
                       .a_depth = 1,
                       .b = head_state_,
                       .b_stride = states,
                       .rows = n,
                       .columns = states,
                       .depth = size});
      for (int64_t i = 0; i < n; ++i) {
        const T *received = head_rows_ + i * states, *c = scan_.x(chunk_.begin + i) + scan_.c_column(group);
        T* gradient = dx(i, scan_.c_column(group));
        log_decay_gradient_[h * n + i] += dot(received, c, states);
        for (int64_t s = 0; s < states; ++s) gradient[s] += received[s];
      }
    }
  }

  /// S_after has exp(l_last - l_j) dt_j x_j B_j^T.
  void through_state_after(int64_t group) {
    const int64_t n = length(), states = shape_.state_size, columns = scan_.group_columns(), size = shape_.head_size;
    const int64_t first = group * scan_.group_heads();
    const T* gradient = scan_.state_gradient(index_) + group * columns;
    weight_inputs(scan_, chunk_, group, weighted_);
    matmul<T>(Cpu{}, dx(0, scan_.b_column(group)), shape_.xbc_columns(), {weighted_, columns, false},
              {gradient, scan_.inner(), true}, n, states, columns, T(1), T(1));
    matmul<T>(Cpu{}, projected_, columns, scan_.b(chunk_, group, false), {gradient, scan_.inner(), false}, n, columns,
              states, T(1), T(0));
    const double* last = scan_.log_decay_at(chunk_.begin + n - 1);
    for (int64_t j = 0; j < n; ++j) {
      const int64_t t = chunk_.begin + j;
      for (int64_t h = 0; h < scan_.group_heads(); ++h) {
        const T decay = std::exp(static_cast<T>(last[first + h] - scan_.log_decay_at(t)[first + h]));
        const T dt = scan_.in.dt[t * shape_.heads + first + h];
        const T* projected = projected_ + j * columns + h * size;
        T* gradient_x = dx(j, (first + h) * size);
        for (int64_t p = 0; p < size; ++p) gradient_x[p] += decay * dt * projected[p];
        const double share = static_cast<double>(decay) * dot(scan_.x(t) + (first + h) * size, projected, size);
        dt_gradient_[h * n + j] += share;
        log_decay_gradient_[h * n + j] -= share * static_cast<double>(dt);
        log_decay_gradient_[h * n + n - 1] += share * static_cast<double>(dt);
      }
    }
  }

  /// S_after has exp(l_last) S_before.
  void carried_state(int64_t group) {
    const int64_t n = length(), size = shape_.head_size, first = group * scan_.group_heads();
    for (int64_t h = 0; h < scan_.group_heads(); ++h) {
      double sum = 0;
      for (int64_t s = 0; s < shape_.state_size; ++s) {
        const int64_t at = s * scan_.inner() + (first + h) * size;
        sum += dot(scan_.state(index_) + at, scan_.state_gradient(index_) + at, size);
      }
      log_decay_gradient_[h * n + n - 1] += std::exp(scan_.log_decay_at(chunk_.begin + n - 1)[first + h]) * sum;
    }
  }

  /// l_t is a sum of rate * dt over the tokens up to t, so its gradient is summed from the end; and D x.
  void finish(int64_t group) {
    const int64_t n = length(), size = shape_.head_size;
    for (int64_t h = 0; h < scan_.group_heads(); ++h) {
      const int64_t head = group * scan_.group_heads() + h;
      const double rate = -std::exp(static_cast<double>(scan_.in.a_log[head]));
      double sum = 0, rate_gradient = 0, skip_gradient = 0;
      for (int64_t i = n - 1; i >= 0; --i) {
        const int64_t t = chunk_.begin + i, at = t * shape_.heads + head;
        sum += log_decay_gradient_[h * n + i];
        rate_gradient += sum * static_cast<double>(scan_.in.dt[at]);
        out_.dt[at] = static_cast<T>(dt_gradient_[h * n + i] + rate * sum);
        skip_gradient += dot(dy(i, head * size), scan_.x(t) + head * size, size);
        for (int64_t p = 0; p < size; ++p) dx(i, head * size)[p] += scan_.in.d[head] * dy(i, head * size)[p];
      }
      scan_.head_sums[(index_ * shape_.heads + head) * 2] = rate_gradient * rate;
      scan_.head_sums[(index_ * shape_.heads + head) * 2 + 1] = skip_gradient;
    }
  }

  const Scan<T>& scan_;
  const Mamba2Shape& shape_;
  const Mamba2Gradients<T>& out_;
  const T* dy_;
  int64_t index_;
  const DocumentChunk& chunk_;
  T *weighted_, *projected_;                     ///< [chunk, inner]
  T *products_, *mixing_, *outer_, *outer_sum_;  ///< [chunk, chunk]: C B^T; times decays; dy x^T; its sum over heads
  T *head_x_, *head_dy_;                         ///< of one head: [head_size, chunk] and [chunk, head_size]
  T *head_state_, *head_rows_;                   ///< [head_size, state_size], [chunk, state_size]
  T* dt_;                                        ///< [chunk]
  double *column_sums_, *shares_;                ///< [chunk]
  double *log_decay_gradient_, *dt_gradient_;
};

template <typename T>
void sum_head_gradients(const Scan<T>& scan, const Mamba2Gradients<T>& out) {
  for (int64_t head = 0; head < scan.shape.heads; ++head) {
    double a_log = out.accumulate_parameters ? static_cast<double>(out.a_log[head]) : 0.0;
    double d = out.accumulate_parameters ? static_cast<double>(out.d[head]) : 0.0;
    for (int64_t index = 0; index < scan.chunk_count; ++index) {
      a_log += scan.head_sums[(index * scan.shape.heads + head) * 2];
      d += scan.head_sums[(index * scan.shape.heads + head) * 2 + 1];
    }
    out.a_log[head] = static_cast<T>(a_log);
    out.d[head] = static_cast<T>(d);
  }
}

}  // namespace mamba2

template <typename T>
void mamba2_scan_backward(Cpu, const Mamba2Gradients<T>& gradients, void* workspace, const T* dy,
                          const Mamba2Inputs<T>& in, const Mamba2Shape& shape, const DocumentChunk* chunks,
                          int64_t chunk_count, int64_t chunk_size) {
  mamba2::Scan<T> scan{
      .in = in, .shape = shape, .chunks = chunks, .chunk_count = chunk_count, .chunk_size = chunk_size};
  mamba2::carve(scan, workspace, true, omp_get_max_threads());
  mamba2::compute_states(scan);
  mamba2::local_state_gradients(scan, dy);
  mamba2::pass_state_gradients(scan);
#pragma omp parallel for schedule(dynamic)
  for (int64_t index = 0; index < chunk_count; ++index) mamba2::ChunkGradient<T>(scan, gradients, dy, index).run();
  mamba2::sum_head_gradients(scan, gradients);
}

template void mamba2_scan_backward<float>(Cpu, const Mamba2Gradients<float>&, void*, const float*,
                                          const Mamba2Inputs<float>&, const Mamba2Shape&, const DocumentChunk*, int64_t,
                                          int64_t);
template void mamba2_scan_backward<double>(Cpu, const Mamba2Gradients<double>&, void*, const double*,
                                           const Mamba2Inputs<double>&, const Mamba2Shape&, const DocumentChunk*,
                                           int64_t, int64_t);

}  // namespace longhaul::kernels
