#include "core/ops/linear_cross_entropy.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/autograd/early_gradient.h"
#include "core/ops/op_support.h"
#include "kernels/matmul.h"

namespace longhaul::ops {
namespace {

constexpr const char* kName = "linear_cross_entropy";

void check(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  check_matrix(kName, "hidden", hidden);
  check_matrix(kName, "weight", weight);
  if (hidden.size(1) != weight.size(1) || targets.count() != hidden.size(0)) {
    throw internal_error("{}: hidden {}, weight {} and targets {} do not go together", kName, hidden.shape().text(),
                         weight.shape().text(), targets.shape().text());
  }
  const int64_t vocabulary = weight.size(0), length = targets.shape().last();
  const int32_t* target = targets.data<int32_t>();
  for (int64_t i = 0; i < targets.count(); ++i) {
    if (target[i] >= vocabulary) {
      throw user_error("{}: target {} at row {} position {} is outside the vocabulary of {}", kName, target[i],
                       i / length, i % length, vocabulary);
    }
  }
}

/// The matrices of the fused layer; dhidden and dweight are undefined when no gradient is wanted.
struct Problem {
  Tensor hidden, weight, targets, dhidden, dweight;
  kernels::CrossEntropyOptions options;
};

/// Losses of rows [begin, end) and their gradients: logits, then dlogits in the same buffer, then the two products.
template <typename T>
void run_chunk(const Problem& problem, int64_t begin, int64_t end, bool first, const Tensor& logits,
               double* cross_entropy, double* objective, uint8_t* correct) {
  const int64_t rows = end - begin, width = problem.hidden.size(1), vocabulary = problem.weight.size(0);
  const T* hidden = problem.hidden.data<T>() + begin * width;
  const T* weight = problem.weight.data<T>();
  T* block = logits.data<T>();
  kernels::matmul<T>(kCpu, block, vocabulary, {hidden, width}, {weight, width, true}, rows, vocabulary, width, T(1),
                     T(0));
  const bool differentiate = problem.dhidden.defined() || problem.dweight.defined();
  kernels::softmax_cross_entropy<T>(kCpu, cross_entropy + begin, objective + begin, differentiate ? block : nullptr,
                                    block, problem.targets.data<int32_t>() + begin, rows, vocabulary, problem.options,
                                    correct + begin);
  if (problem.dhidden.defined()) {
    kernels::matmul<T>(kCpu, problem.dhidden.data<T>() + begin * width, width, {block, vocabulary}, {weight, width},
                       rows, width, vocabulary, T(1), T(0));
  }
  if (problem.dweight.defined()) {
    kernels::matmul<T>(kCpu, problem.dweight.data<T>(), width, {block, vocabulary, true}, {hidden, width}, vocabulary,
                       width, rows, T(1), T(first ? 0 : 1));
  }
}

/// Sums of the losses of all rows, in row order; fills the gradients.
template <typename T>
LinearCrossEntropyResult run(const Problem& problem, int64_t chunk_bytes) {
  const int64_t rows = problem.hidden.size(0), vocabulary = problem.weight.size(0);
  const int64_t chunk_rows = cross_entropy_chunk_rows(rows, vocabulary, sizeof(T), chunk_bytes);
  std::vector<double> cross_entropy(static_cast<size_t>(rows), 0.0), objective(static_cast<size_t>(rows), 0.0);
  std::vector<uint8_t> correct(static_cast<size_t>(rows), 0);
  const Tensor logits = Tensor::empty({std::min(chunk_rows, rows), vocabulary}, dtype_of<T>);
  const int32_t* targets = problem.targets.data<int32_t>();
  bool first = true;
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t end = std::min(rows, begin + chunk_rows);
    const bool any_valid = std::any_of(targets + begin, targets + end, [](int32_t target) { return target >= 0; });
    if (any_valid) {
      run_chunk<T>(problem, begin, end, first, logits, cross_entropy.data(), objective.data(), correct.data());
      first = false;
    } else if (problem.dhidden.defined()) {
      problem.dhidden.rows(begin, end).zero();
    }
  }
  if (first && problem.dweight.defined()) problem.dweight.zero();
  LinearCrossEntropyResult result;
  double objective_sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (targets[row] < 0) continue;
    result.cross_entropy_sum += cross_entropy[static_cast<size_t>(row)];
    objective_sum += objective[static_cast<size_t>(row)];
    ++result.valid_targets;
    result.correct += correct[static_cast<size_t>(row)];
  }
  result.objective = Variable(Tensor::from<double>({1}, {objective_sum}));
  return result;
}

template <typename T>
LinearCrossEntropyResult run_recorded(Tape& tape, const Variable& hidden, const Variable& weight, Problem problem,
                                      int64_t chunk_bytes) {
  if (!tape.needs_backward({&hidden, &weight})) return run<T>(problem, chunk_bytes);
  std::shared_ptr<EarlyGradient> dweight;
  if (hidden.requires_grad()) problem.dhidden = Tensor::empty(hidden.shape(), hidden.dtype());
  if (weight.requires_grad()) {
    dweight = std::make_shared<EarlyGradient>(weight.target());
    problem.dweight = dweight->tensor();
  }
  LinearCrossEntropyResult result = run<T>(problem, chunk_bytes);
  // Both gradients are those of seed 1; the backward pass only scales and delivers them.
  auto backward = [dweight, dhidden = problem.dhidden, target = hidden.target()](const Tensor& seed_tensor) mutable {
    const double seed = seed_tensor.item<double>();
    if (dweight) dweight->deliver(seed);
    if (!target.wanted()) return;
    if (seed != 1.0) kernels::scale(kCpu, dhidden.data<T>(), static_cast<T>(seed), dhidden.count());
    target.give(dhidden);
    dhidden = Tensor();
  };
  result.objective = tape.record(kName, result.objective.value(), {hidden, weight}, std::move(backward));
  return result;
}

}  // namespace

int64_t cross_entropy_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t chunk_bytes) {
  const int64_t fitting = std::max(int64_t{1}, chunk_bytes / (vocabulary * element_bytes));
  const int64_t chunks = std::max(int64_t{1}, (rows + fitting - 1) / fitting);
  return std::max(int64_t{1}, (rows + chunks - 1) / chunks);
}

LinearCrossEntropyResult linear_cross_entropy(Tape& tape, const Variable& hidden, const Variable& weight,
                                              const Tensor& targets, kernels::CrossEntropyOptions options,
                                              int64_t chunk_bytes) {
  check(hidden.value(), weight.value(), targets);
  return dispatch_float(kName, hidden.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor w = compute_value(kName, weight.value(), hidden.dtype());
    return run_recorded<T>(tape, hidden, weight, {hidden.value(), w, targets, Tensor(), Tensor(), options},
                           chunk_bytes);
  });
}

}  // namespace longhaul::ops
