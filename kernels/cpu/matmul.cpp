#include "kernels/matmul.h"

#include <blis.h>
#include <omp.h>

#include <algorithm>
#include <utility>

namespace longhaul::kernels {
namespace {

/// Below this many multiplications the time to wake a team exceeds what it saves.
constexpr double kParallelProducts = 2e6;
/// Blocks of threads begin at multiples of this many rows and columns: the sides of BLIS' register tiles divide it or
/// nearly so, so that few tiles are cut.
constexpr int64_t kRowUnit = 12, kColumnUnit = 16;

/// One product on the calling thread. Without BLIS' path for small matrices, which would choose another order of sums
/// by size: on the remaining path an element is always the sum of blocks of k in order, each summed term by term, and
/// tiles at the edge are computed in full and copied in part.
template <typename T>
void multiply(T* c, int64_t c_stride, MatrixOperand<T> a, MatrixOperand<T> b, int64_t m, int64_t n, int64_t k, T alpha,
              T beta) {
  rntm_t runtime = BLIS_RNTM_INITIALIZER;
  bli_rntm_set_num_threads(1, &runtime);
  bli_rntm_disable_l3_sup(&runtime);
  const auto transposition = [](bool transposed) { return transposed ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE; };
  const auto call = [&](auto gemm) {
    gemm(transposition(a.transposed), transposition(b.transposed), m, n, k, &alpha, const_cast<T*>(a.data), a.stride, 1,
         const_cast<T*>(b.data), b.stride, 1, &beta, c, c_stride, 1, nullptr, &runtime);
  };
  if constexpr (std::is_same_v<T, float>) {
    call(bli_sgemm_ex);
  } else {
    call(bli_dgemm_ex);
  }
}

/// The grid of threads over C whose blocks read the fewest rows of A and columns of B.
std::pair<int64_t, int64_t> thread_grid(int64_t m, int64_t n, int64_t threads) {
  std::pair<int64_t, int64_t> best{1, threads};
  double least = 0;
  for (int64_t rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const int64_t columns = threads / rows;
    const double read =
        static_cast<double>(m) / static_cast<double>(rows) + static_cast<double>(n) / static_cast<double>(columns);
    if (rows == 1 || read < least) {
      least = read;
      best = {rows, columns};
    }
  }
  return best;
}

/// Where part `index` of `parts` begins among `count` rows or columns.
int64_t part_begin(int64_t count, int64_t index, int64_t parts, int64_t unit) {
  const int64_t units = (count + unit - 1) / unit;
  return std::min(count, units * index / parts * unit);
}

}  // namespace

template <typename T>
void matmul(Cpu, T* c, int64_t c_stride, MatrixOperand<T> a, MatrixOperand<T> b, int64_t m, int64_t n, int64_t k,
            T alpha, T beta) {
  if (m == 0 || n == 0) return;
  const double products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int64_t threads = products < kParallelProducts || omp_in_parallel() ? 1 : omp_get_max_threads();
  if (threads == 1) {
    multiply(c, c_stride, a, b, m, n, k, alpha, beta);
    return;
  }
  const auto [grid_rows, grid_columns] = thread_grid(m, n, threads);
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(threads))
  for (int64_t part = 0; part < threads; ++part) {
    const int64_t row = part / grid_columns, column = part % grid_columns;
    const int64_t first = part_begin(m, row, grid_rows, kRowUnit);
    const int64_t from = part_begin(n, column, grid_columns, kColumnUnit);
    const int64_t rows = part_begin(m, row + 1, grid_rows, kRowUnit) - first;
    const int64_t columns = part_begin(n, column + 1, grid_columns, kColumnUnit) - from;
    if (rows == 0 || columns == 0) continue;
    const MatrixOperand<T> own_a{a.data + (a.transposed ? first : first * a.stride), a.stride, a.transposed};
    const MatrixOperand<T> own_b{b.data + (b.transposed ? from * b.stride : from), b.stride, b.transposed};
    multiply(c + first * c_stride + from, c_stride, own_a, own_b, rows, columns, k, alpha, beta);
  }
}

std::string blas_name() {
  return std::string("BLIS ") + bli_info_get_version_str() + ", kernels for " + bli_arch_string(bli_arch_query_id());
}

template void matmul(Cpu, float*, int64_t, MatrixOperand<float>, MatrixOperand<float>, int64_t, int64_t, int64_t, float,
                     float);
template void matmul(Cpu, double*, int64_t, MatrixOperand<double>, MatrixOperand<double>, int64_t, int64_t, int64_t,
                     double, double);

}  // namespace longhaul::kernels
