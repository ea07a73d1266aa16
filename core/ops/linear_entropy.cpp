#include "core/ops/linear_entropy.h"

#include <algorithm>
#include <vector>

#include "core/ops/op_support.h"
#include "kernels/entropy.h"
#include "kernels/matmul.h"

namespace longhaul::ops {
namespace {

constexpr const char* kName = "linear_entropy";
constexpr int64_t kTileColumns = 1024;  ///< of the vocabulary
constexpr int64_t kTileRows = 1024;     ///< 4 MiB of scores in f32: written and read again within the caches

void check(const Tensor& hidden, const Tensor& weight, std::string_view product) {
  check_matrix(kName, "hidden", hidden);
  check_matrix(kName, "weight", weight);
  if (hidden.size(1) != weight.size(1) || weight.size(0) < 2) {
    throw internal_error("{}: hidden {} and weight {} do not go together ([rows, d], [vocabulary >= 2, d])", kName,
                         hidden.shape().text(), weight.shape().text());
  }
  if (product != "f32") {
    throw user_error("gate.product \"{}\" is not known; use \"f32\"", product);
  }
}

template <typename T>
Tensor entropy(const Tensor& hidden, const Tensor& weight) {
  const int64_t rows = hidden.size(0), width = hidden.size(1), vocabulary = weight.size(0);
  const Tensor scores = Tensor::empty({std::min(rows, kTileRows), std::min(vocabulary, kTileColumns)}, dtype_of<T>);
  std::vector<kernels::RunningEntropy> running(static_cast<size_t>(rows));
  for (int64_t column = 0; column < vocabulary; column += kTileColumns) {
    const int64_t columns = std::min(kTileColumns, vocabulary - column);
    const Tensor w = compute_value(kName, weight.rows(column, column + columns), dtype_of<T>);
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int64_t count = std::min(kTileRows, rows - row);
      kernels::matmul<T>(kCpu, scores.data<T>(), columns, {hidden.data<T>() + row * width, width},
                         {w.data<T>(), width, true}, count, columns, width, T(1), T(0));
      kernels::entropy_update<T>(kCpu, running.data() + row, scores.data<T>(), columns, count, columns);
    }
  }
  const Tensor result = Tensor::empty({rows}, DType::f32);
  kernels::entropy_finish(kCpu, result.data<float>(), running.data(), rows, vocabulary);
  return result;
}

}  // namespace

Tensor linear_entropy(const Tensor& hidden, const Tensor& weight, std::string_view product) {
  check(hidden, weight, product);
  return dispatch_float(kName, hidden.dtype(), [&](auto type) { return entropy<decltype(type)>(hidden, weight); });
}

}  // namespace longhaul::ops
