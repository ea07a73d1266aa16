#include "core/ops/expert_gate.h"

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"
#include "tests/core/ops/sample_batch.h"

namespace longhaul {
namespace {

using testing::batch_of_samples;
using testing::random_tensor;

kernels::ExpertGate noisy(int64_t experts, int64_t chosen) {
  return {.experts = experts, .chosen = chosen, .temperature = 0.5, .noisy = true, .key = {42, 7, 3}};
}

ops::ExpertChoice choose(const Tensor& logits, const kernels::ExpertGate& gate, const Batch& batch) {
  Tape tape(Tape::Mode::off);
  return ops::expert_gate(tape, Variable(logits), gate, batch);
}

TEST(ExpertGateOp, ChoosesTheLargest) {
  const auto [weights, experts] = choose(Tensor::from<double>({2, 3}, {0, 1, 0.5, 2, 2, 2}),
                                         {.experts = 3, .chosen = 2}, batch_of_samples(1, 2, {0}));
  EXPECT_EQ(experts.to_vector<int32_t>(), std::vector<int32_t>({1, 2, 0, 1}));
  EXPECT_DOUBLE_EQ(weights.value().data<double>()[0], 1 / (1 + std::exp(-1.0)));
  EXPECT_EQ(weights.value().data<double>()[3], 0.5);
}

TEST(ExpertGateOp, GradientsAreRight) {
  const Batch batch = batch_of_samples(3, 2, {5, 6, 1000000000007});
  for (const auto& [experts, chosen] : {std::pair{1, 1}, std::pair{4, 2}, std::pair{4, 4}, std::pair{7, 3}}) {
    const auto op = [&, gate = noisy(experts, chosen)](Tape& tape, const std::vector<Variable>& in) {
      return ops::expert_gate(tape, in[0], gate, batch).weights;
    };
    testing::GradientCheck(op, {random_tensor({6, experts}, 1)}).run();
  }
}

TEST(ExpertGateOp, ChoiceBelongsToTheSampleNotToItsPlace) {
  const Tensor logits = random_tensor<float>({6, 4}, 1, 0.1);
  for (float& value : logits.rows(3, 6).span<float>()) value = logits.data<float>()[&value - logits.data<float>() - 12];
  const auto together = choose(logits, noisy(4, 2), batch_of_samples(2, 3, {8, 9}));
  const auto eight = choose(logits.rows(0, 3), noisy(4, 2), batch_of_samples(1, 3, {8}));
  const auto nine = choose(logits.rows(0, 3), noisy(4, 2), batch_of_samples(1, 3, {9}));
  EXPECT_EQ(together.experts.rows(0, 3).to_vector<int32_t>(), eight.experts.to_vector<int32_t>());
  EXPECT_EQ(together.weights.value().rows(3, 6).to_vector<float>(), nine.weights.value().to_vector<float>());
  EXPECT_NE(eight.weights.value().to_vector<float>(), nine.weights.value().to_vector<float>());
}

TEST(ExpertGateOp, MistakesAreErrors) {
  const Tensor logits = Tensor::zeros({4, 3}, DType::f32);
  testing::expect_error(Fault::kInternal, {"expert_gate: ", "[4, 3]", "6 tokens"}, [&] {
    choose(logits, noisy(3, 2), batch_of_samples(2, 3, {0, 1}));
  });
  testing::expect_error(Fault::kInternal, {"expert_gate: logits", "[4, 3]", "[4, 5]"}, [&] {
    choose(logits, noisy(5, 2), batch_of_samples(2, 2, {0, 1}));
  });
  testing::expect_error(Fault::kInternal, {"expert_gate: 4 of 3 experts"}, [&] {
    choose(logits, noisy(3, 4), batch_of_samples(2, 2, {0, 1}));
  });
}

}  // namespace
}  // namespace longhaul
