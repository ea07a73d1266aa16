#include "core/ops/gated_delta_mixer.h"

#include <cmath>

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using ops::GatedDeltaOptions;
using ops::GatedDeltaParameters;
using testing::GradientCheck;
using testing::random_tensor;

Batch batch_of(int64_t rows, int64_t length, std::vector<int32_t> document_start = {}) {
  const std::vector<int32_t> zeros(static_cast<size_t>(rows * length), 0);
  return make_batch(rows, length, zeros, zeros, std::move(document_start),
                    std::vector<int64_t>(static_cast<size_t>(rows), 0));
}

GatedDeltaOptions small_options(int64_t chunk = 2) {
  GatedDeltaOptions options;
  options.heads = 2;
  options.key_size = 2;
  options.value_size = 3;
  options.convolution_width = 3;
  options.chunk = chunk;
  return options;
}

/// projected, convolution weight, A_log, dt_bias, norm weight.
template <typename T = double>
std::vector<Tensor> some_inputs(const GatedDeltaOptions& o, int64_t tokens, uint64_t seed) {
  return {random_tensor<T>({tokens, o.projected_columns()}, seed, 1.5),
          random_tensor<T>({o.convolution_channels(), o.convolution_width}, seed + 1),
          random_tensor<T>({o.heads}, seed + 2), random_tensor<T>({o.heads}, seed + 3),
          random_tensor<T>({o.value_size}, seed + 4, 2.0)};
}

GatedDeltaParameters parameters_of(const std::vector<Variable>& in) { return {in[1], in[2], in[3], in[4]}; }

Variable run(Tape& tape, const std::vector<Variable>& in, const Batch& batch, const GatedDeltaOptions& options) {
  return ops::gated_delta_mixer(tape, in[0], parameters_of(in), batch, options);
}

std::vector<Variable> variables(const std::vector<Tensor>& tensors, bool requires_grad = false) {
  std::vector<Variable> out;
  for (const Tensor& tensor : tensors) out.emplace_back(tensor, requires_grad);
  return out;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

/// The formulas of the mixer, token by token, one document per row.
std::vector<double> reference(const std::vector<Tensor>& in, const Batch& batch, const GatedDeltaOptions& o) {
  const int64_t n = o.heads, K = o.key_size, V = o.value_size, W = o.convolution_width, C = o.convolution_channels();
  const double *weight = in[1].data<double>(), *a_log = in[2].data<double>(), *dt_bias = in[3].data<double>();
  std::vector<double> out;
  std::vector<double> state(n * V * K);
  for (int64_t token = 0; token < batch.tokens(); ++token) {
    const int64_t position = batch.positions.data<int32_t>()[token];
    const double* x = in[0].data<double>() + token * o.projected_columns();
    if (position == 0) std::fill(state.begin(), state.end(), 0.0);
    std::vector<double> mixed(C, 0.0);
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t back = 0; back < std::min(W, position + 1); ++back) {
        mixed[c] += weight[c * W + W - 1 - back] * x[c - back * o.projected_columns()];
      }
      mixed[c] = silu(mixed[c]);
    }
    const double *g = x + C, *b = g + n * V, *a = b + n;
    for (int64_t h = 0; h < n; ++h) {
      double *q = &mixed[h * K], *k = q + n * K, *S = &state[h * V * K];
      const double* v = &mixed[2 * n * K + h * V];
      double qq = o.key_norm_epsilon, kk = o.key_norm_epsilon;
      for (int64_t d = 0; d < K; ++d) qq += q[d] * q[d], kk += k[d] * k[d];
      for (int64_t d = 0; d < K; ++d) q[d] /= std::sqrt(qq * static_cast<double>(K)), k[d] /= std::sqrt(kk);
      const double beta = 1 / (1 + std::exp(-b[h]));
      const double alpha = std::exp(-std::exp(a_log[h]) * std::log1p(std::exp(a[h] + dt_bias[h])));
      std::vector<double> o_h(V, 0.0);
      double square = 0;
      for (int64_t c = 0; c < V; ++c) {
        double held = 0;
        for (int64_t d = 0; d < K; ++d) held += alpha * S[c * K + d] * k[d];
        for (int64_t d = 0; d < K; ++d) {
          S[c * K + d] = alpha * S[c * K + d] + beta * (v[c] - held) * k[d];
          o_h[c] += S[c * K + d] * q[d];
        }
        square += o_h[c] * o_h[c] / static_cast<double>(V);
      }
      for (int64_t c = 0; c < V; ++c) {
        out.push_back(o_h[c] / std::sqrt(square + o.norm_epsilon) * in[4].data<double>()[c] * silu(g[h * V + c]));
      }
    }
  }
  return out;
}

struct Case {
  const char* name;
  Batch batch;
};

std::vector<Case> cases() {
  return {{"one token", batch_of(1, 1)},
          {"two rows", batch_of(2, 3)},
          {"documents", batch_of(2, 6, {0, 0, 0, 0, 4, 4, 0, 1, 1, 1, 1, 1})}};
}

TEST(GatedDeltaMixer, FollowsItsFormulas) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    for (const int64_t chunk : {1, 3, 64}) {
      const GatedDeltaOptions options = small_options(chunk);
      const std::vector<Tensor> in = some_inputs(options, c.batch.tokens(), 3);
      Tape tape;
      const std::vector<double> found = run(tape, variables(in), c.batch, options).value().to_vector<double>();
      const std::vector<double> expected = reference(in, c.batch, options);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
    }
  }
}

TEST(GatedDeltaMixer, GradientsAreRight) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    // Norms of nearly nothing bend too much for differences: larger epsilons.
    GatedDeltaOptions options = small_options();
    options.norm_epsilon = options.key_norm_epsilon = 0.1;
    const auto op = [&](Tape& tape, const std::vector<Variable>& in) { return run(tape, in, c.batch, options); };
    GradientCheck(op, some_inputs(options, c.batch.tokens(), 11)).run();
  }
}

TEST(GatedDeltaMixer, LongIdenticalKeysAreNormed) {
  const GatedDeltaOptions options = small_options(4);
  const Batch batch = batch_of(1, 9);
  std::vector<Tensor> in = some_inputs(options, 9, 3);
  const int64_t first = options.key_columns();  // of k; after SiLU every key is about (30, 30)
  for (int64_t t = 0; t < 9; ++t) {
    for (int64_t c = first; c < 2 * first; ++c) in[0].data<double>()[t * options.projected_columns() + c] = 30;
  }
  for (int64_t c = first; c < 2 * first; ++c) {
    for (int64_t j = 0; j < 3; ++j) in[1].data<double>()[c * 3 + j] = j == 2 ? 1 : 0;
  }
  Tape tape;
  const std::vector<double> found = run(tape, variables(in), batch, options).value().to_vector<double>();
  const std::vector<double> expected = reference(in, batch, options);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

struct Result {
  Tensor out, gradient;
};

Result run_with_gradient(const std::vector<Tensor>& in, const Tensor& projected, const Tensor& seed, const Batch& batch,
                         const GatedDeltaOptions& options) {
  Tape tape;
  std::vector<Variable> inputs = variables(in, true);
  inputs[0] = Variable(projected, true);
  const Variable out = run(tape, inputs, batch, options);
  tape.backward_from(out, seed);
  return {out.value(), inputs[0].grad()};
}

TEST(GatedDeltaMixer, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  GatedDeltaOptions options = small_options(4);
  options.key_size = 16;
  options.value_size = 24;
  const std::vector<Tensor> in = some_inputs<float>(options, 21, 5);
  const Tensor seed = random_tensor<float>({21, options.value_columns()}, 9);
  std::vector<int32_t> starts;
  const std::vector<int64_t> lengths = {4, 9, 1, 7};
  for (const int64_t length : lengths) starts.insert(starts.end(), length, static_cast<int32_t>(starts.size()));
  const Result packed = run_with_gradient(in, in[0], seed, batch_of(1, 21, starts), options);
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const int64_t end = begin + length;
    const Result alone = run_with_gradient(in, in[0].rows(begin, end).clone(), seed.rows(begin, end).clone(),
                                           batch_of(1, length), options);
    EXPECT_EQ(alone.out.to_vector<float>(), packed.out.rows(begin, end).to_vector<float>()) << begin;
    EXPECT_EQ(alone.gradient.to_vector<float>(), packed.gradient.rows(begin, end).to_vector<float>()) << begin;
    begin = end;
  }
}

TEST(GatedDeltaMixer, StepsEqualTheWholeRow) {
  const GatedDeltaOptions options = small_options();
  const std::vector<Tensor> in = some_inputs(options, 2 * 9, 8);  // two sequences of nine tokens
  Tape tape;
  const Tensor whole = run(tape, variables(in), batch_of(2, 9), options).value();
  const Tensor state = Tensor::zeros({2, options.heads, options.value_size, options.key_size}, DType::f64);
  const Tensor window = Tensor::zeros({2, options.convolution_width - 1, options.convolution_channels()}, DType::f64);
  for (int64_t t = 0; t < 9; ++t) {
    const Tensor tokens = Tensor::empty({2, options.projected_columns()}, DType::f64);
    for (int64_t s = 0; s < 2; ++s) tokens.rows(s, s + 1).copy_from(in[0].rows(s * 9 + t, s * 9 + t + 1));
    const Tensor out = ops::gated_delta_mixer_step(tokens, parameters_of(variables(in)), state, window, options);
    for (int64_t s = 0; s < 2; ++s) {
      const std::vector<double> found = out.rows(s, s + 1).to_vector<double>();
      const std::vector<double> expected = whole.rows(s * 9 + t, s * 9 + t + 1).to_vector<double>();
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << t;
    }
  }
}

TEST(GatedDeltaMixer, ParametersInBf16ActAsTheirValues) {
  const GatedDeltaOptions options = small_options();
  std::vector<Tensor> in = some_inputs<float>(options, 5, 2), stored = in;
  for (size_t i = 1; i < in.size(); ++i) {
    stored[i] = in[i].to(DType::bf16);
    in[i] = stored[i].to(DType::f32);
  }
  Tape tape;
  EXPECT_EQ(run(tape, variables(stored), batch_of(1, 5), options).value().to_vector<float>(),
            run(tape, variables(in), batch_of(1, 5), options).value().to_vector<float>());
}

TEST(GatedDeltaMixer, MistakesAreErrors) {
  const GatedDeltaOptions options = small_options();
  const std::vector<Tensor> in = some_inputs(options, 6, 1);
  const auto expect = [&](std::initializer_list<const char*> parts, size_t index, Shape shape, const Batch& batch) {
    std::vector<Tensor> wrong = in;
    wrong[index] = Tensor::zeros(shape, DType::f64);
    Tape tape;
    testing::expect_error(Fault::kInternal, parts, [&] { run(tape, variables(wrong), batch, options); });
  };
  expect({"gated_delta_mixer: ", "[6, 23]", "24]"}, 0, {6, 23}, batch_of(1, 6));
  expect({"gated_delta_mixer: ", "[6, 24]", "5 tokens"}, 0, {6, 24}, batch_of(1, 5));
  expect({"gated_delta_mixer: ", "[13, 3]", "14 channels"}, 1, {13, 3}, batch_of(1, 6));
  expect({"gated_delta_mixer: A_log", "[3]", "[2]"}, 2, {3}, batch_of(1, 6));
  expect({"gated_delta_mixer: norm weight", "[6]", "[3]"}, 4, {6}, batch_of(1, 6));
}

}  // namespace
}  // namespace longhaul
