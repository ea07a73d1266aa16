// ops::attention with the length-aware prior, alone and behind the ops that make one.
#include <algorithm>

#include "core/ops/alignment.h"
#include "core/ops/attention.h"
#include "core/ops/memberships.h"
#include "core/tensor/allocator.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"
#include "tests/core/ops/attention_testing.h"
#include "tests/core/ops/prior_testing.h"

namespace longhaul {
namespace {

using kernels::PriorSettings;
using testing::batch_of;
using testing::bytes_of;
using testing::GradientCheck;
using testing::kClipped;
using testing::kDistance;
using testing::kSmooth;
using testing::options_of;
using testing::prior_inputs;
using testing::random_tensor;

struct Case {
  const char* name;
  Batch batch;
  ops::AttentionOptions options;
  PriorSettings settings;
  int64_t regimes = 3;
};

std::vector<Case> cases() {
  const std::vector<int32_t> documents = {0, 0, 2, 2, 2, 5, 5, 0, 1, 2, 2, 2, 2, 6};
  return {{"one token", batch_of(1, 1), options_of(1, 1, 2, false), kSmooth, 2},
          {"one regime", batch_of(2, 4), options_of(1, 1, 2, false), kDistance, 1},
          {"plain", batch_of(2, 5), options_of(2, 2, 3, false), kSmooth},
          {"clipped", batch_of(2, 6), options_of(2, 2, 3, false), kClipped, 4},
          {"grouped", batch_of(1, 7), options_of(6, 2, 2, true), kClipped},
          {"documents", batch_of(2, 7, documents), options_of(4, 2, 2, true), kClipped},
          {"documents, not clipped", batch_of(2, 7, documents), options_of(2, 1, 2, false), kSmooth}};
}

/// qkv, mean_memberships, alignment and pos_beta.
std::vector<Tensor> inputs_of(const Case& c) {
  const int64_t columns = (c.options.query_heads + 2 * c.options.key_heads) * c.options.head_size;
  std::vector<Tensor> inputs{random_tensor({c.batch.tokens(), columns}, 2, 1.5)};
  for (const Tensor& tensor : testing::prior_tensors(prior_inputs(c.batch.length(), c.regimes, c.settings)))
    inputs.push_back(tensor);
  return inputs;
}

Variable attend(Tape& tape, const std::vector<Variable>& in, const Case& c) {
  const ops::LengthPrior prior = testing::length_prior(in[1], in[2], in[3], c.settings);
  return ops::attention(tape, in[0], c.batch, c.options, &prior);
}

std::vector<Variable> variables_of(const std::vector<Tensor>& tensors, bool requires_grad = false) {
  std::vector<Variable> variables;
  for (const Tensor& tensor : tensors) variables.emplace_back(tensor, requires_grad);
  return variables;
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.shape(), expected.shape());
  for (int64_t i = 0; i < expected.count(); ++i)
    ASSERT_NEAR(found.data<double>()[i], expected.data<double>()[i], tolerance) << i;
}

TEST(AttentionWithPrior, EqualsTheDenseDefinition) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const std::vector<Tensor> in = inputs_of(c);
    const kernels::PlainPrior plain = plain_prior(prior_inputs(c.batch.length(), c.regimes, c.settings));
    Tape tape;
    expect_near(attend(tape, variables_of(in), c).value(),
                testing::dense_attention(in[0], c.batch, c.options, plain.bias), 1e-11);
    // What a case is called after is so.
    const double limit = c.settings.clip * c.settings.warm;
    const bool clipped = std::ranges::any_of(plain.unclipped, [&](double value) { return std::abs(value) > limit; });
    EXPECT_EQ(clipped, c.settings.clip < 1);
  }
}

TEST(AttentionWithPrior, GradientsAreRight) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto op = [&c](Tape& tape, const std::vector<Variable>& in) { return attend(tape, in, c); };
    GradientCheck(op, inputs_of(c)).run();
  }
}

TEST(AttentionWithPrior, ScoreTemperatureDividesTheProductsAlone) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto op = [&c](Tape& tape, const std::vector<Variable>& in) {
      ops::LengthPrior prior = testing::length_prior(in[1], in[2], in[3], c.settings);
      prior.score_temperature = 1.25;
      return ops::attention(tape, in[0], c.batch, c.options, &prior);
    };
    const std::vector<Tensor> in = inputs_of(c);
    const Tensor divided = in[0].clone();
    for (int64_t token = 0; token < c.batch.tokens(); ++token)
      for (int64_t i = 0; i < c.options.query_heads * c.options.head_size; ++i)
        divided.data<double>()[token * divided.size(1) + i] /= 1.25;
    const kernels::PlainPrior plain = plain_prior(prior_inputs(c.batch.length(), c.regimes, c.settings));
    Tape tape;
    expect_near(op(tape, variables_of(in)).value(), testing::dense_attention(divided, c.batch, c.options, plain.bias),
                1e-11);
    GradientCheck(op, in).run();
  }
}

TEST(AttentionWithPrior, PosBetaBelowZeroCountsAsZero) {
  const Case c{"", batch_of(2, 5), options_of(2, 1, 3, false), kSmooth};
  std::vector<Tensor> in = inputs_of(c);
  const auto out = [&](double pos_beta) {
    in[3] = Tensor::from<double>({1}, {pos_beta});
    Tape tape;
    return bytes_of(attend(tape, variables_of(in), c).value());
  };
  EXPECT_EQ(out(-0.3), out(0));
  EXPECT_NE(out(0.3), out(0));
  in[3] = Tensor::from<double>({1}, {-0.3});
  const auto op = [&c](Tape& tape, const std::vector<Variable>& x) { return attend(tape, x, c); };
  GradientCheck(op, in).run();
}

/// From z, centres, log_sigma, qkv and pos_beta.
Variable whole_chain(Tape& tape, const std::vector<Variable>& in, const Case& c, bool detach) {
  const Variable mean = ops::batch_mean(tape, ops::memberships(tape, in[0], in[1], in[2]), c.batch);
  const Tensor basis = ops::rpa_basis(c.batch.length(), c.regimes, in[0].dtype());
  const Variable projection = ops::alignment(tape, mean, basis, {.detach = detach});
  return attend(tape, {in[3], mean, projection, in[4]}, c);
}

std::vector<Tensor> chain_inputs(const Case& c) {
  return {random_tensor({c.batch.tokens(), 4}, 11), random_tensor({c.regimes, 4}, 12),
          random_tensor({c.regimes}, 13, 0.3), inputs_of(c)[0], Tensor::from<double>({1}, {0.2})};
}

TEST(AttentionWithPrior, GradientsOfTheWholeChainAreRight) {
  const Case c{"", batch_of(3, 6, {0, 0, 0, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 5}), options_of(2, 1, 2, true),
               kClipped};
  const auto op = [&c](Tape& tape, const std::vector<Variable>& in) { return whole_chain(tape, in, c, false); };
  GradientCheck(op, chain_inputs(c)).run();
}

TEST(AttentionWithPrior, DetachedAlignmentActsAsAConstant) {
  const Case c{"", batch_of(2, 5), options_of(2, 1, 2, false), kSmooth};
  const std::vector<Tensor> tensors = chain_inputs(c);
  const auto gradients = [&](auto function) {
    Tape tape;
    const std::vector<Variable> in = variables_of(tensors, true);
    const Variable out = function(tape, in);
    tape.backward_from(out, random_tensor(out.shape(), 14));
    std::vector<std::vector<std::byte>> all{bytes_of(out.value())};
    for (const Variable& variable : in) all.push_back(bytes_of(variable.grad()));
    return all;
  };
  const auto chain = [&](bool detach) {
    return gradients([&, detach](Tape& tape, const auto& in) { return whole_chain(tape, in, c, detach); });
  };
  const auto constant = gradients([&](Tape& tape, const auto& in) {
    const Variable mean = ops::batch_mean(tape, ops::memberships(tape, in[0], in[1], in[2]), c.batch);
    Tape off(Tape::Mode::off);
    const Variable projection = ops::alignment(off, mean, ops::rpa_basis(5, 3, DType::f64), {.detach = false});
    return attend(tape, {in[3], mean, projection, in[4]}, c);
  });
  EXPECT_EQ(chain(true), constant);
  EXPECT_NE(chain(false), constant);
}

TEST(AttentionWithPrior, PriorThatHasNotBegunChangesNoBits) {
  Case c{"", batch_of(2, 70), options_of(4, 2, 4, false), kSmooth};
  c.settings.warm = 0;
  std::vector<Tensor> in;
  for (const Tensor& tensor : inputs_of(c)) in.push_back(tensor.to(DType::f32));
  const Tensor seed = random_tensor<float>({140, 16}, 5);
  const auto run = [&](bool with_prior) {
    Tape tape;
    const std::vector<Variable> x = variables_of(in, true);
    const Variable out = with_prior ? attend(tape, x, c) : ops::attention(tape, x[0], c.batch, c.options);
    tape.backward_from(out, seed);
    return std::vector{bytes_of(out.value()), bytes_of(x[0].grad())};
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(AttentionWithPrior, RowsMayBeShorterThanThePrior) {
  const Case full{"", batch_of(1, 7), options_of(2, 1, 2, false), kClipped},
      part{"", batch_of(1, 4), full.options, kClipped};
  std::vector<Tensor> in = inputs_of(full);
  const Tensor whole = in[0];
  Tape tape;
  const Tensor expected = attend(tape, variables_of(in), full).value().rows(0, 4);
  in[0] = whole.rows(0, 4).clone();
  expect_near(attend(tape, variables_of(in), part).value(), expected, 1e-14);
  const auto op = [&](Tape& t, const std::vector<Variable>& x) { return attend(t, x, part); };
  GradientCheck(op, in).run();
}

TEST(AttentionWithPrior, Bf16PosBetaActsAsItsFloatValue) {
  const Case c{"", batch_of(2, 9), options_of(2, 1, 4, false), kSmooth};
  std::vector<Tensor> in;
  for (const Tensor& tensor : inputs_of(c)) in.push_back(tensor.to(DType::f32));
  const Tensor stored = in[3].to(DType::bf16), seed = random_tensor<float>({18, 8}, 5);
  const auto run = [&](const Tensor& pos_beta) {
    in[3] = pos_beta;
    Tape tape;
    const std::vector<Variable> x = variables_of(in, true);
    const Variable out = attend(tape, x, c);
    tape.backward_from(out, seed);
    return std::vector{bytes_of(out.value()), bytes_of(x[1].grad()), bytes_of(x[3].grad())};
  };
  EXPECT_EQ(run(stored), run(stored.to(DType::f32)));
}

TEST(AttentionWithPrior, NeedsMemoryOfOrderLength) {
  const Case c{"", batch_of(1, 2048), options_of(1, 1, 4, false), kClipped};
  std::vector<Tensor> in;
  for (const Tensor& tensor : inputs_of(c)) in.push_back(tensor.to(DType::f32));
  const std::vector<Variable> x = variables_of(in, true);
  const Tensor seed = random_tensor<float>({2048, 4}, 5);
  allocator::reset_peak({});
  const int64_t before = allocator::use({}).live_bytes;
  Tape tape;
  tape.backward_from(attend(tape, x, c), seed);
  EXPECT_LE(allocator::use({}).peak_bytes - before, 1 << 20);  // a T x T matrix has 16 MiB
}

TEST(AttentionWithPrior, MistakesAreErrors) {
  const Case c{"", batch_of(2, 5), options_of(2, 1, 2, false), kSmooth};
  const std::vector<Tensor> in = inputs_of(c);
  const auto expect = [&](size_t input, Shape shape, std::initializer_list<const char*> pieces) {
    std::vector<Variable> x = variables_of(in);
    x[input] = Variable(Tensor::zeros(shape, DType::f64));
    Tape tape;
    testing::expect_error(Fault::kInternal, pieces, [&] { attend(tape, x, c); });
  };
  expect(1, {4, 3}, {"attention: ", "[4, 3]", "5 tokens"});
  expect(1, {5, 4}, {"attention: ", "[5, 4]", "[3, 3]"});
  expect(2, {3, 4}, {"attention: ", "[3, 4]", "[5, 3]"});
  expect(3, {2}, {"attention: pos_beta", "[2]", "[1]"});
}

}  // namespace
}  // namespace longhaul
