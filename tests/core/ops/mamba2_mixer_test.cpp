#include "core/ops/mamba2_mixer.h"

#include <cmath>

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using ops::Mamba2Options;
using ops::Mamba2Parameters;
using testing::GradientCheck;
using testing::random_tensor;

Mamba2Options small_options(int64_t groups = 1) {
  Mamba2Options options;
  options.heads = 2;
  options.head_size = 3;
  options.state_size = 4;
  options.groups = groups;
  options.convolution_width = 3;
  options.chunk = 3;
  return options;
}

/// projected, then the parameters in their order.
std::vector<Tensor> random_inputs(const Mamba2Options& o, int64_t tokens) {
  return {random_tensor({tokens, o.projected_columns()}, 1),
          random_tensor({o.convolution_channels(), o.convolution_width}, 2),
          random_tensor({o.convolution_channels()}, 3),
          random_tensor({o.heads}, 4),
          random_tensor({o.heads}, 5),
          random_tensor({o.heads}, 6),
          random_tensor({o.inner()}, 7)};
}

Variable mix(Tape& tape, const std::vector<Variable>& in, const Batch& batch, const Mamba2Options& options) {
  return ops::mamba2_mixer(tape, in[0], {in[1], in[2], in[3], in[4], in[5], in[6]}, batch, options);
}

std::vector<Variable> variables(const std::vector<Tensor>& tensors) {
  std::vector<Variable> result;
  for (const Tensor& tensor : tensors) result.emplace_back(tensor, true);
  return result;
}

Batch batch_of(int64_t rows, int64_t length, std::vector<int32_t> document_start = {}) {
  const std::vector<int32_t> zeros(static_cast<size_t>(rows * length), 0);
  return make_batch(rows, length, zeros, zeros, std::move(document_start),
                    std::vector<int64_t>(static_cast<size_t>(rows), 0));
}

TEST(Mamba2Mixer, GradientsAreRight) {
  for (const int64_t groups : {1, 2}) {
    const Mamba2Options options = small_options(groups);
    for (const Batch& batch : {batch_of(1, 1), batch_of(1, 7), batch_of(2, 5, {0, 0, 2, 2, 2, 0, 1, 2, 2, 4})}) {
      GradientCheck([&](Tape& tape, const std::vector<Variable>& in) { return mix(tape, in, batch, options); },
                    random_inputs(options, batch.tokens()))
          .run();
    }
  }
}

// models.md 3 written down for one head of one channel with one state, two tokens.
TEST(Mamba2Mixer, ComputesByHand) {
  Mamba2Options options;
  options.heads = options.head_size = options.state_size = 1;
  options.convolution_width = 2;
  // Columns z | x B C | dt; the convolution passes x through its last tap and the token before with 1/2.
  const std::vector<Variable> in = {Variable(Tensor::from<double>({2, 5}, {1, 2, 3, 4, 0.5, -1, 1, -2, 2, 1.5})),
                                    Variable(Tensor::from<double>({3, 2}, {0.5, 1, 0.5, 1, 0.5, 1})),
                                    Variable(Tensor::from<double>({3}, {0, 0, 0})),
                                    Variable(Tensor::from<double>({1}, {0.25})),
                                    Variable(Tensor::from<double>({1}, {std::log(2.0)})),
                                    Variable(Tensor::from<double>({1}, {3})),
                                    Variable(Tensor::from<double>({1}, {2}))};
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  const auto norm = [](double v) { return 2 * v / std::sqrt(v * v + 1e-5); };
  const double dt0 = std::log1p(std::exp(0.75)), dt1 = std::log1p(std::exp(1.75));
  const double x0 = silu(2), x1 = silu(2), b0 = silu(3), b1 = silu(-0.5), c0 = silu(4), c1 = silu(4);
  const double state0 = dt0 * x0 * b0, state1 = std::exp(-2 * dt1) * state0 + dt1 * x1 * b1;

  Tape tape(Tape::Mode::off);
  const std::vector<double> y = mix(tape, in, batch_of(1, 2), options).value().to_vector<double>();

  EXPECT_NEAR(y[0], norm((state0 * c0 + 3 * x0) * silu(1)), 1e-12);
  EXPECT_NEAR(y[1], norm((state1 * c1 + 3 * x1) * silu(-1)), 1e-12);
}

TEST(Mamba2Mixer, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  const Mamba2Options options = small_options();
  const std::vector<int64_t> lengths = {4, 1, 7, 2};
  std::vector<int32_t> starts;
  for (const int64_t length : lengths) starts.insert(starts.end(), length, static_cast<int32_t>(starts.size()));
  const int64_t tokens = static_cast<int64_t>(starts.size());
  const std::vector<Tensor> inputs = random_inputs(options, tokens);
  const Tensor seed = random_tensor({tokens, options.inner()}, 9);
  const std::vector<Variable> packed = variables(inputs);
  Tape tape;
  const Variable out = mix(tape, packed, batch_of(1, tokens, starts), options);
  tape.backward_from(out, seed);

  int64_t begin = 0;
  for (const int64_t length : lengths) {
    std::vector<Tensor> part = inputs;
    part[0] = inputs[0].rows(begin, begin + length).clone();
    const std::vector<Variable> alone = variables(part);
    Tape own;
    const Variable own_out = mix(own, alone, batch_of(1, length), options);
    own.backward_from(own_out, seed.rows(begin, begin + length).clone());
    EXPECT_EQ(out.value().rows(begin, begin + length).to_vector<double>(), own_out.value().to_vector<double>());
    EXPECT_EQ(packed[0].grad().rows(begin, begin + length).to_vector<double>(), alone[0].grad().to_vector<double>());
    begin += length;
  }
}

TEST(Mamba2Mixer, ChunkSizeChangesRoundingOnly) {
  Mamba2Options options = small_options();
  const std::vector<Variable> in = variables(random_inputs(options, 13));
  const Batch batch = batch_of(1, 13, {0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5});
  Tape tape(Tape::Mode::off);
  const std::vector<double> expected = mix(tape, in, batch, options).value().to_vector<double>();
  for (const int64_t chunk : {1, 2, 8, 64}) {
    options.chunk = chunk;
    const std::vector<double> found = mix(tape, in, batch, options).value().to_vector<double>();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << "chunk " << chunk;
  }
}

TEST(Mamba2Mixer, Bf16ParametersActAsTheirFloatValues) {
  const Mamba2Options options = small_options();
  std::vector<Variable> narrow, wide;
  for (const Tensor& tensor : random_inputs(options, 5)) {
    const Tensor value = tensor.to(DType::f32).to(DType::bf16);
    narrow.emplace_back(narrow.empty() ? value.to(DType::f32) : value, true);
    wide.emplace_back(value.to(DType::f32), true);
  }
  Tape tape;
  const Variable found = mix(tape, narrow, batch_of(1, 5), options);
  EXPECT_EQ(found.value().to_vector<float>(), mix(tape, wide, batch_of(1, 5), options).value().to_vector<float>());
  tape.backward_from(found, random_tensor<float>({5, options.inner()}, 4));
  EXPECT_EQ(narrow[1].grad().dtype(), DType::f32);
}

TEST(Mamba2Mixer, ShapesThatDisagreeAreNamed) {
  const Mamba2Options options = small_options();
  const auto complain = [&](size_t input, Shape shape, std::initializer_list<const char*> words) {
    std::vector<Variable> in = variables(random_inputs(options, 5));
    in[input] = Variable(Tensor::zeros(shape, DType::f64));
    testing::expect_error(Fault::kInternal, words, [&] {
      Tape tape;
      mix(tape, in, batch_of(1, 5), options);
    });
  };
  complain(0, {4, options.projected_columns()}, {"mamba2_mixer: ", "5 tokens"});
  complain(0, {5, 8}, {"mamba2_mixer: projected input", "[5, 8]"});
  complain(1, {14, 4}, {"mamba2_mixer: convolution weight", "[14, 4]"});
  complain(4, {3}, {"mamba2_mixer: A_log", "[3]", "[2]"});
  complain(6, {5}, {"mamba2_mixer: norm weight", "[5]", "[6]"});
}

}  // namespace
}  // namespace longhaul
