#include <string>

#include "core/ops/activation.h"
#include "core/ops/add.h"
#include "core/ops/dropout.h"
#include "core/ops/layer_norm.h"
#include "core/ops/linear.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::bytes_of;
using testing::random_tensor;

/// A pre-norm feed-forward block with dropout: h + dropout(gelu(norm(h) W^T + b) V^T).
struct Block {
  explicit Block(uint64_t seed)
      : gain(random_tensor<float>({24}, seed), true),
        shift(random_tensor<float>({24}, seed + 1), true),
        up(random_tensor<float>({40, 24}, seed + 2), true),
        bias(random_tensor<float>({40}, seed + 3), true),
        down(random_tensor<float>({24, 40}, seed + 4), true) {}

  Variable operator()(Tape& tape, const Variable& h, const Batch& batch, uint32_t layer) const {
    Variable f = ops::layer_norm(tape, h, gain, shift, 1e-5);
    f = ops::bias_gelu(tape, ops::linear(tape, f, up), bias);
    f = ops::dropout(tape, ops::linear(tape, f, down), 0.25, {7, 3, layer}, batch);
    return ops::add(tape, h, f);
  }
  std::vector<Variable> parameters() const { return {gain, shift, up, bias, down}; }
  Variable gain, shift, up, bias, down;
};

struct Result {
  std::vector<std::vector<std::byte>> gradients;
  std::vector<std::byte> output;
  int64_t peak = 0;
};

Result run(bool with_recompute) {
  const int layers = 4;
  const Batch batch = make_batch(2, 9, std::vector<int32_t>(18, 0), std::vector<int32_t>(18, 0), {}, {11, 12});
  std::vector<Block> blocks;
  for (int layer = 0; layer < layers; ++layer) blocks.emplace_back(10 * layer + 1);
  const Variable x(random_tensor<float>({18, 24}, 99), true);
  const Tensor seed = random_tensor<float>({18, 24}, 98);
  allocator::reset_peak({});
  const int64_t before = allocator::use({}).live_bytes;
  Tape tape;
  Variable h = x;
  for (int layer = 0; layer < layers; ++layer) {
    const Block& block = blocks[static_cast<size_t>(layer)];
    const auto body = [&block, &batch, layer](Tape& inner, const Variable& input) {
      return block(inner, input, batch, static_cast<uint32_t>(layer));
    };
    h = with_recompute ? recompute(tape, h, block.parameters(), body) : body(tape, h);
  }
  // The stream is used once more outside the blocks, so that its gradient arrives in several pieces.
  h = ops::add(tape, h, x);
  Result result;
  result.output = bytes_of(h.value());
  const Variable end = std::exchange(h, Variable());
  tape.backward_from(end, seed);
  result.peak = allocator::use({}).peak_bytes - before;
  result.gradients.push_back(bytes_of(x.grad()));
  for (const Block& block : blocks) {
    for (const Variable& parameter : block.parameters()) result.gradients.push_back(bytes_of(parameter.grad()));
  }
  return result;
}

TEST(Recompute, GivesTheSameBitsWithLessMemory) {
  const Result plain = run(false), recomputed = run(true);
  EXPECT_TRUE(plain.output == recomputed.output);
  ASSERT_EQ(plain.gradients.size(), recomputed.gradients.size());
  for (size_t i = 0; i < plain.gradients.size(); ++i) EXPECT_TRUE(plain.gradients[i] == recomputed.gradients[i]) << i;
  EXPECT_LT(recomputed.peak, plain.peak);
}

TEST(Recompute, PassesTheGradientCheck) {
  const testing::Function function = [](Tape& tape, const std::vector<Variable>& in) {
    return recompute(tape, in[0], {in[1], in[2]}, [in](Tape& inner, const Variable& x) {
      return ops::add(inner, x, ops::bias_gelu(inner, ops::linear(inner, x, in[1]), in[2]));
    });
  };
  testing::GradientCheck(function, {random_tensor({5, 7}, 1), random_tensor({7, 7}, 2), random_tensor({7}, 3)}).run();
}

TEST(Recompute, IdentityFunction) {
  Tape tape;
  const Variable x(Tensor::from<double>({1}, {2.0}), true);
  tape.backward(recompute(tape, x, {}, [](Tape&, const Variable& input) { return input; }), 3.0);
  EXPECT_EQ(x.grad().item<double>(), 3.0);
}

}  // namespace
}  // namespace longhaul
