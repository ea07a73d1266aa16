#include "core/ops/expert_mixture.h"

#include <cmath>

#include "core/ops/activation.h"
#include "core/ops/expert_gate.h"
#include "core/ops/linear.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::GradientCheck;
using testing::random_tensor;

Tensor chosen(int64_t k, const std::vector<int32_t>& experts) {
  return Tensor::from<int32_t>({static_cast<int64_t>(experts.size()) / k, k}, experts);
}

TEST(RouteToExperts, TokensOfEachExpertRise) {
  const ops::ExpertRouting routing = ops::route_to_experts(chosen(2, {2, 0, 0, 3, 3, 2}), 4);
  ASSERT_EQ(routing.tokens.size(), 4u);
  EXPECT_EQ(routing.tokens[0].to_vector<int32_t>(), std::vector<int32_t>({0, 1}));
  EXPECT_EQ(routing.tokens[1].count(), 0);
  EXPECT_EQ(routing.tokens[2].to_vector<int32_t>(), std::vector<int32_t>({0, 2}));
  EXPECT_EQ(routing.tokens[3].to_vector<int32_t>(), std::vector<int32_t>({1, 2}));
  EXPECT_EQ(routing.rows.to_vector<int32_t>(), std::vector<int32_t>({0, 0, 1, 0, 1, 1}));
}

TEST(MixExperts, GradientsAreRight) {
  for (const auto& [k, experts] : {std::pair<int64_t, std::vector<int32_t>>{1, {0, 2, 2, 0, 0}},
                                   {2, {0, 1, 2, 1, 1, 0, 1, 2, 2, 0}},
                                   {2, {2, 0, 0, 2, 2, 0, 2, 0, 0, 2}},
                                   {3, {0, 1, 2, 2, 1, 0, 1, 2, 0}}})
    for (const int64_t columns : {1, 5, 33}) {
      const ops::ExpertRouting routing = ops::route_to_experts(chosen(k, experts), 3);
      const auto op = [&](Tape& tape, const std::vector<Variable>& in) {
        return ops::mix_experts(tape, {in[0], in[1], in[2]}, in[3], routing);
      };
      std::vector<Tensor> inputs;
      for (size_t e = 0; e < 3; ++e) inputs.push_back(random_tensor({routing.tokens[e].count(), columns}, e));
      inputs.push_back(random_tensor(routing.experts.shape(), 4));
      GradientCheck(op, inputs).run();
    }
}

constexpr int64_t kWidth = 5, kInner = 6, kExperts = 3;

/// Inputs x and gate logits, then up and down matrix of every expert: the feed-forward layer as a model composes it.
Variable feed_forward(Tape& tape, const std::vector<Variable>& in, const kernels::ExpertGate& gate) {
  const int64_t tokens = in[0].shape()[0];
  const std::vector<int32_t> zeros(static_cast<size_t>(tokens), 0);
  const Batch batch = make_batch(1, tokens, zeros, zeros, {}, {3});
  const auto [weights, experts] = ops::expert_gate(tape, in[1], gate, batch);
  const ops::ExpertRouting routing = ops::route_to_experts(experts, kExperts);
  std::vector<Variable> outputs;
  for (size_t e = 0; e < kExperts; ++e) {
    const Variable mine = ops::gather_rows(tape, in[0], routing.tokens[e]);
    const Variable inner = ops::bias_gelu(tape, ops::linear(tape, mine, in[2 + 2 * e]), {});
    outputs.push_back(ops::linear(tape, inner, in[3 + 2 * e]));
  }
  return ops::mix_experts(tape, outputs, weights, routing);
}

std::vector<Tensor> layer_inputs(int64_t tokens) {
  std::vector<Tensor> inputs = {random_tensor({tokens, kWidth}, 1), random_tensor({tokens, kExperts}, 2, 3)};
  for (uint64_t e = 0; e < kExperts; ++e) {
    inputs.push_back(random_tensor({kInner, kWidth}, 10 + e));
    inputs.push_back(random_tensor({kWidth, kInner}, 20 + e));
  }
  return inputs;
}

TEST(MixExperts, GradientsOfAWholeLayerAreRight) {
  const kernels::ExpertGate gate{.experts = kExperts, .noisy = true, .key = {1, 2, 3}};
  const auto op = [&](Tape& tape, const std::vector<Variable>& in) { return feed_forward(tape, in, gate); };
  GradientCheck(op, layer_inputs(4)).run();
}

TEST(MixExperts, AnExpertWithoutTokensIsFine) {
  const kernels::ExpertGate gate{.experts = kExperts};
  std::vector<Tensor> inputs = layer_inputs(3);
  inputs[1] = Tensor::from<double>({3, 3}, {1, -9, 0.3, 0.4, -9, 1, 2, -9, 1});
  const auto op = [&](Tape& tape, const std::vector<Variable>& in) { return feed_forward(tape, in, gate); };
  GradientCheck(op, inputs).run();
}

TEST(MixExperts, ATokenHasTheSameBitsWhateverOthersChoose) {
  const kernels::ExpertGate gate{.experts = kExperts};
  std::vector<Tensor> inputs = layer_inputs(6);
  const auto first_token = [&] {
    Tape tape;
    std::vector<Variable> variables;
    for (const Tensor& input : inputs) variables.emplace_back(input, true);
    const Variable y = feed_forward(tape, variables, gate);
    tape.backward_from(y, random_tensor(y.shape(), 9));
    std::vector<double> bits = y.value().rows(0, 1).to_vector<double>();
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<double> gradient = variables[i].grad().rows(0, 1).to_vector<double>();
      bits.insert(bits.end(), gradient.begin(), gradient.end());
    }
    return bits;
  };
  const std::vector<double> before = first_token();
  for (uint64_t seed : {5, 6, 7}) {
    inputs[1] = inputs[1].clone();
    inputs[1].rows(1, 6).copy_from(random_tensor({5, kExperts}, seed));
    EXPECT_EQ(first_token(), before);
  }
}

TEST(MixExperts, MistakesAreErrors) {
  Tape tape;
  const ops::ExpertRouting routing = ops::route_to_experts(chosen(2, {0, 1, 0, 1}), 2);
  const auto zeros = [](int64_t rows, int64_t columns) { return Variable(Tensor::zeros({rows, columns}, DType::f64)); };
  testing::expect_error(Fault::kInternal, {"route_to_experts: expert 2 of token 1", "0..1"}, [&] {
    ops::route_to_experts(chosen(2, {0, 1, 2, 1}), 2);
  });
  testing::expect_error(Fault::kInternal, {"mix_experts: 1 outputs for 2 experts"},
                        [&] { ops::mix_experts(tape, {zeros(2, 3)}, zeros(2, 2), routing); });
  testing::expect_error(Fault::kInternal, {"mix_experts: weights [2, 1]", "[2, 2]"}, [&] {
    ops::mix_experts(tape, {zeros(2, 3), zeros(2, 3)}, zeros(2, 1), routing);
  });
  testing::expect_error(Fault::kInternal, {"mix_experts: output", "[1, 3] of expert 1", "2 tokens"}, [&] {
    ops::mix_experts(tape, {zeros(2, 3), zeros(1, 3)}, zeros(2, 2), routing);
  });
  testing::expect_error(Fault::kInternal, {"mix_experts: output", "[2, 4]", "[2, 3]"}, [&] {
    ops::mix_experts(tape, {zeros(2, 3), zeros(2, 4)}, zeros(2, 2), routing);
  });
}

}  // namespace
}  // namespace longhaul
