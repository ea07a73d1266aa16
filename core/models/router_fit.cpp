#include "core/models/router_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/optim/adamw.h"
#include "kernels/matmul.h"
#include "kernels/philox.h"
#include "kernels/pointwise.h"

namespace longhaul {
namespace {

constexpr kernels::Cpu kCpu{};
constexpr uint32_t kOrderStream = 0x524F5554;   // "ROUT"
constexpr uint32_t kWeightStream = 0x524F5557;  // "ROUW"

/// Solves the symmetric positive definite system a x = b (Cholesky); a [n, n] is overwritten, b becomes x.
void solve_positive_definite(std::vector<double>& a, std::vector<double>& b) {
  const size_t n = b.size();
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = j; i < n; ++i) {
      const double inner = std::inner_product(&a[i * n], &a[i * n] + j, &a[j * n], 0.0);
      a[i * n + j] = i == j ? std::sqrt(a[i * n + j] - inner) : (a[i * n + j] - inner) / a[j * n + j];
    }
  }
  for (size_t i = 0; i < n; ++i)
    b[i] = (b[i] - std::inner_product(&a[i * n], &a[i * n] + i, b.begin(), 0.0)) / a[i * n + i];
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
}

/// The linear map that predicts the entropies best, with the constant 1 as the last input, which no ridge pulls at.
void fit_linear_part(const GateRouter& router, const RouterSamples& samples, double ridge) {
  const int64_t tokens = samples.inputs.size(0), width = router.d_model(), columns = width + 1;
  const size_t n = static_cast<size_t>(columns);
  std::vector<double> extended(static_cast<size_t>(tokens) * n);
  for (int64_t t = 0; t < tokens; ++t) {
    double* const row = &extended[static_cast<size_t>(t) * n];
    std::copy_n(samples.inputs.data<float>() + t * width, width, row);
    row[width] = 1;
  }
  std::vector<double> targets(samples.entropies.span<float>().begin(), samples.entropies.span<float>().end());
  std::vector<double> squares(n * n), right(n);
  const kernels::MatrixOperand<double> transposed{extended.data(), columns, true}, plain{extended.data(), columns};
  kernels::matmul<double>(kCpu, squares.data(), columns, transposed, plain, columns, columns, tokens, 1, 0);
  kernels::matmul<double>(kCpu, right.data(), 1, transposed, {targets.data(), 1}, columns, 1, tokens, 1, 0);
  double trace = 0;
  for (size_t i = 0; i + 1 < n; ++i) trace += squares[i * n + i];
  const double pull = ridge * trace / static_cast<double>(width) + 1e-12;
  for (size_t i = 0; i < n; ++i) squares[i * n + i] += i + 1 < n ? pull : 1e-12;
  solve_positive_definite(squares, right);
  std::copy_n(right.begin(), width, router.linear().data<float>());
  router.bias().data<float>()[0] = static_cast<float>(right[n - 1]);
}

/// Hidden units look at random directions of unit variance for inputs of unit mean square; their output starts at 0.
void start_hidden_part(const GateRouter& router, uint64_t seed) {
  const float range = std::sqrt(3.0f / static_cast<float>(router.d_model()));
  const std::span<float> weights = router.hidden_weight().span<float>();
  for (size_t i = 0; i < weights.size(); ++i) {
    uint32_t bits[4];
    kernels::random_bits4({seed, 0, kWeightStream}, 0, i, bits);
    weights[i] = range * (2 * kernels::uniform_from_bits(bits[0]) - 1);
  }
}

/// The gradient of half the mean square error over one batch, into `gradient`, which has the router's layout.
class BatchGradient {
 public:
  BatchGradient(const GateRouter& router, int64_t batch)
      : router_(router),
        gradient_(router.d_model(), router.hidden_units()),
        inputs_(static_cast<size_t>(batch * router.d_model())),
        hidden_(static_cast<size_t>(batch * router.hidden_units())) {}

  const GateRouter& operator()(const RouterSamples& samples, std::span<const int64_t> chosen) {
    const int64_t rows = static_cast<int64_t>(chosen.size()), width = router_.d_model(), units = router_.hidden_units();
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(samples.inputs.data<float>() + chosen[r] * width, width, &inputs_[static_cast<size_t>(r * width)]);
    }
    kernels::matmul<float>(kCpu, hidden_.data(), units, {inputs_.data(), width},
                           {router_.hidden_weight().data<float>(), width, true}, rows, units, width, 1, 0);
    std::vector<float> errors(chosen.size());
    gradient_.flat().zero();
    for (int64_t r = 0; r < rows; ++r) {
      const float target = samples.entropies.data<float>()[chosen[r]];
      errors[r] = differentiate_row(&inputs_[r * width], &hidden_[r * units], target, 1.0f / static_cast<float>(rows));
    }
    kernels::matmul<float>(kCpu, gradient_.hidden_weight().data<float>(), width, {hidden_.data(), units, true},
                           {inputs_.data(), width}, units, width, rows, 1, 0);
    kernels::column_sum(kCpu, gradient_.hidden_bias().data<float>(), false, hidden_.data(), rows, units);
    kernels::matmul<float>(kCpu, gradient_.linear().data<float>(), width, {errors.data(), rows},
                           {inputs_.data(), width}, 1, width, rows, 1, 0);
    gradient_.bias().data<float>()[0] = std::accumulate(errors.begin(), errors.end(), 0.0f);
    return gradient_;
  }

 private:
  /// Replaces the hidden products of a row by their gradients, adds to the output's gradient; returns the row's error
  /// times `weight`.
  float differentiate_row(const float* inputs, float* hidden, float target, float weight) {
    const int64_t width = router_.d_model(), units = router_.hidden_units();
    const float* const output = router_.output().data<float>();
    std::vector<float> sigmoid(static_cast<size_t>(units));
    double sum = router_.bias().data<float>()[0];
    for (int64_t i = 0; i < width; ++i) sum += double{router_.linear().data<float>()[i]} * inputs[i];
    for (int64_t j = 0; j < units; ++j) {
      hidden[j] += router_.hidden_bias().data<float>()[j];
      sigmoid[j] = 1 / (1 + std::exp(-hidden[j]));
      sum += double{output[j]} * hidden[j] * sigmoid[j];
    }
    const float error = weight * (static_cast<float>(sum) - target);
    for (int64_t j = 0; j < units; ++j) {
      gradient_.output().data<float>()[j] += error * hidden[j] * sigmoid[j];
      hidden[j] = error * output[j] * sigmoid[j] * (1 + hidden[j] * (1 - sigmoid[j]));
    }
    return error;
  }

  const GateRouter& router_;
  GateRouter gradient_;
  std::vector<float> inputs_, hidden_;
};

/// Numbers 0 to count - 1 in a random order (Fisher & Yates).
std::vector<int64_t> shuffled(int64_t count, uint64_t seed, uint64_t pass) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i-- > 1;) {
    uint32_t bits[4];
    kernels::random_bits4({seed, pass, kOrderStream}, 0, i, bits);
    std::swap(order[i], order[(uint64_t{bits[0]} << 32 | bits[1]) % (i + 1)]);
  }
  return order;
}

double mean_square_error(const GateRouter& router, const RouterSamples& samples) {
  const Tensor predicted = router.predict(samples.inputs);
  double sum = 0;
  for (int64_t i = 0; i < predicted.count(); ++i) {
    const double error = double{predicted.data<float>()[i]} - samples.entropies.data<float>()[i];
    sum += error * error;
  }
  return predicted.count() > 0 ? sum / static_cast<double>(predicted.count()) : 0;
}

/// The passes of AdamW over `samples`; leaves the router as it was when `judges` saw it err least.
void refine(const GateRouter& router, const RouterSamples& samples, const RouterSamples& judges,
            const RouterFitOptions& options) {
  const int64_t tokens = samples.inputs.size(0);
  BatchGradient gradient_of(router, options.batch);
  std::vector<float> first(static_cast<size_t>(router.flat().count())), second(first.size());
  const int64_t batches = (tokens + options.batch - 1) / options.batch, updates = options.passes * batches;
  const AdamWOptions adamw{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0};
  Tensor best = router.flat().clone();
  double least = mean_square_error(router, judges);
  std::vector<int64_t> order;
  for (int64_t update = 0; update < updates; ++update) {
    const int64_t pass = update / batches, begin = update % batches * options.batch;
    if (begin == 0) order = shuffled(tokens, options.seed, static_cast<uint64_t>(pass));
    const int64_t count = std::min(options.batch, tokens - begin);
    const GateRouter& gradient = gradient_of(samples, std::span(order).subspan(begin, count));
    const double rate = options.learning_rate * (1 - static_cast<double>(update) / static_cast<double>(updates));
    kernels::adamw_update<float>(kCpu, router.flat().data<float>(), first.data(), second.data(),
                                 gradient.flat().data<float>(), router.flat().count(),
                                 adamw_step(adamw, update + 1, rate, 1, WeightDecay::no));
    if (begin + count < tokens) continue;
    const double error = mean_square_error(router, judges);
    if (error >= least) continue;
    least = error;
    best = router.flat().clone();
  }
  router.flat().copy_from(best);
}

}  // namespace

GateRouter fit_router(const RouterSamples& samples, const RouterFitOptions& options) {
  const int64_t tokens = samples.inputs.size(0), judges = tokens / 8;
  if (tokens == 0) throw user_error("the router has no tokens to be fitted to; give a split with tokens");
  const auto part = [&](int64_t begin, int64_t end) {
    return RouterSamples{samples.inputs.rows(begin, end), samples.entropies.rows(begin, end)};
  };
  const GateRouter router(samples.inputs.size(1), options.hidden_units);
  fit_linear_part(router, part(0, tokens - judges), options.ridge);
  start_hidden_part(router, options.seed);
  if (judges > 0) refine(router, part(0, tokens - judges), part(tokens - judges, tokens), options);
  return router;
}

}  // namespace longhaul
