#include "core/ops/linear_entropy.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/ops/op_support.h"
#include "core/ops/times_transposed.h"
#include "kernels/entropy.h"
#include "kernels/int16_matmul.h"

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
  if (product != "f32" && product != "int16") {
    throw user_error("gate.product \"{}\" is not known; use \"f32\" or \"int16\"", product);
  }
}

/// Scores of tiles in the type of hidden.
template <typename T>
class ExactScores {
 public:
  ExactScores(const Tensor& hidden, Tape::Mode mode) : hidden_(hidden), mode_(mode) {}
  void take_weight(const Tensor& weight) { weight_ = weight; }
  void compute(T* scores, int64_t row, int64_t rows) const {
    const int64_t width = hidden_.size(1);
    times_transposed<T>(mode_, scores, hidden_.data<T>() + row * width, weight_.data<T>(), rows, weight_.size(0),
                        width);
  }

 private:
  Tensor hidden_, weight_;
  Tape::Mode mode_;
};

/// Scores of tiles by 16-bit integers. Operands are quantised tile by tile: little beside the product, and no copy of
/// the weight has to be kept up to date.
class QuantizedScores {
 public:
  explicit QuantizedScores(const Tensor& hidden)
      : hidden_(hidden),
        left_(static_cast<size_t>(kernels::int16_left_count(std::min(hidden.size(0), kTileRows), hidden.size(1)))),
        right_(static_cast<size_t>(kernels::int16_right_count(kTileColumns, hidden.size(1)))),
        left_scales_(kTileRows),
        right_scales_(kTileColumns) {}
  void take_weight(const Tensor& weight) {
    columns_ = weight.size(0);
    kernels::int16_quantize_right(kCpu, right_.data(), right_scales_.data(), weight.data<float>(), columns_,
                                  weight.size(1));
  }
  void compute(float* scores, int64_t row, int64_t rows) {
    const int64_t width = hidden_.size(1);
    kernels::int16_quantize_left(kCpu, left_.data(), left_scales_.data(), hidden_.data<float>() + row * width, rows,
                                 width);
    kernels::int16_matmul(kCpu, scores, columns_, left_.data(), left_scales_.data(), right_.data(),
                          right_scales_.data(), rows, columns_, width);
  }

 private:
  Tensor hidden_;
  std::vector<int16_t> left_, right_;
  std::vector<float> left_scales_, right_scales_;
  int64_t columns_ = 0;
};

template <typename T, typename Scores>
Tensor entropy(const Tensor& hidden, const Tensor& weight, Scores source) {
  const int64_t rows = hidden.size(0), vocabulary = weight.size(0);
  const Tensor scores = Tensor::empty({std::min(rows, kTileRows), std::min(vocabulary, kTileColumns)}, dtype_of<T>);
  std::vector<kernels::RunningEntropy> running(static_cast<size_t>(rows));
  for (int64_t column = 0; column < vocabulary; column += kTileColumns) {
    const int64_t columns = std::min(kTileColumns, vocabulary - column);
    source.take_weight(compute_value(kName, weight.rows(column, column + columns), dtype_of<T>));
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int64_t count = std::min(kTileRows, rows - row);
      source.compute(scores.data<T>(), row, count);
      kernels::entropy_update<T>(kCpu, running.data() + row, scores.data<T>(), columns, count, columns);
    }
  }
  const Tensor result = Tensor::empty({rows}, DType::f32);
  kernels::entropy_finish(kCpu, result.data<float>(), running.data(), rows, vocabulary);
  return result;
}

}  // namespace

Tensor linear_entropy(const Tensor& hidden, const Tensor& weight, std::string_view product, Tape::Mode mode) {
  check(hidden, weight, product);
  return dispatch_float(kName, hidden.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, float>) {
      const bool few_rows = mode == Tape::Mode::decode && hidden.size(0) <= kFewRows;  // memory is the limit there
      if (product == "int16" && !few_rows) return entropy<T>(hidden, weight, QuantizedScores(hidden));
    }
    return entropy<T>(hidden, weight, ExactScores<T>(hidden, mode));
  });
}

}  // namespace longhaul::ops
