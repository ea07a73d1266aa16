#include "core/ops/linear_cross_entropy.h"

#include <cmath>

#include "core/ops/add.h"
#include "core/ops/linear.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using kernels::CrossEntropyOptions;
using testing::bytes_of;
using testing::GradientCheck;
using testing::random_tensor;

constexpr int64_t kAllAtOnce = 1 << 20;

Tensor targets_of(std::initializer_list<int32_t> values) {
  return Tensor::from<int32_t>({static_cast<int64_t>(values.size())}, values);
}

/// The unfused definition, per row: unsmoothed cross-entropy and objective.
void reference(const Tensor& hidden, const Tensor& weight, const Tensor& targets, CrossEntropyOptions options,
               double& cross_entropy, double& objective) {
  const int64_t vocabulary = weight.size(0), width = weight.size(1);
  cross_entropy = objective = 0;
  for (int64_t row = 0; row < hidden.size(0); ++row) {
    const int32_t target = targets.data<int32_t>()[row];
    if (target < 0) continue;
    std::vector<double> logits(static_cast<size_t>(vocabulary));
    double total = 0, mean = 0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      double& logit = logits[static_cast<size_t>(v)];
      for (int64_t i = 0; i < width; ++i)
        logit += hidden.data<double>()[row * width + i] * weight.data<double>()[v * width + i];
      total += std::exp(logit);
      mean += logit / static_cast<double>(vocabulary);
    }
    const double log_z = std::log(total);
    const double ce = log_z - logits[static_cast<size_t>(target)];
    cross_entropy += ce;
    objective +=
        (1 - options.label_smoothing) * ce + options.label_smoothing * (log_z - mean) + options.z_loss * log_z * log_z;
  }
}

TEST(LinearCrossEntropy, EqualsTheUnfusedDefinition) {
  const Tensor hidden = random_tensor({7, 5}, 1, 2.0), weight = random_tensor({11, 5}, 2, 2.0);
  const Tensor targets = targets_of({0, 10, -1, 3, 3, -1, 7});
  for (const CrossEntropyOptions options :
       {CrossEntropyOptions{}, CrossEntropyOptions{0.1, 0.0}, CrossEntropyOptions{0.015, 1e-2}}) {
    double cross_entropy = 0, objective = 0;
    reference(hidden, weight, targets, options, cross_entropy, objective);
    Tape tape;
    const auto found =
        ops::linear_cross_entropy(tape, Variable(hidden), Variable(weight), targets, options, kAllAtOnce);
    EXPECT_NEAR(found.cross_entropy_sum, cross_entropy, 1e-12);
    EXPECT_NEAR(found.objective.value().item<double>(), objective, 1e-12);
    EXPECT_EQ(found.valid_targets, 5);
    EXPECT_FALSE(found.objective.requires_grad());
  }
}

TEST(LinearCrossEntropy, CountsRightTargetsInEveryChunking) {
  // The weight is the identity: a row's logits are the row itself.
  const Tensor hidden = Tensor::from<double>({5, 3}, {2, 1, 0, 0, 1, 2, 0, 1, 0, 1, 0, 0, 0, 0, 7});
  const Tensor identity = Tensor::from<double>({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  const Tensor targets = targets_of({0, 2, 2, -1, 2});
  for (const int64_t chunk_bytes : {int64_t{1}, int64_t{2 * 3 * 8}, kAllAtOnce}) {
    for (const bool training : {false, true}) {
      Tape tape;
      const auto found = ops::linear_cross_entropy(tape, Variable(hidden, training), Variable(identity, training),
                                                   targets, {}, chunk_bytes);
      EXPECT_EQ(found.correct, 3);
      EXPECT_EQ(found.valid_targets, 4);
    }
  }
}

TEST(LinearCrossEntropy, GradientsAreRight) {
  const Tensor targets = targets_of({0, 10, -1, 3, 3, -1, 7});
  for (const CrossEntropyOptions options : {CrossEntropyOptions{}, CrossEntropyOptions{0.1, 1e-2}}) {
    for (const int64_t chunk_bytes : {int64_t{1}, int64_t{3 * 11 * 8}, kAllAtOnce}) {
      const auto op = [&](Tape& tape, const std::vector<Variable>& in) {
        return ops::linear_cross_entropy(tape, in[0], in[1], targets, options, chunk_bytes).objective;
      };
      GradientCheck(op, {random_tensor({7, 5}, 1), random_tensor({11, 5}, 2)}).run();
    }
  }
}

// The weight feeds the head twice and a layer below: contributions reach its memory in an order that the early gradient
// must survive, with the first head's gradient lying in the bound memory all along.
TEST(LinearCrossEntropy, TiedWeightSumsAllItsUses) {
  const Tensor targets = targets_of({0, 5, -1}), shifted = targets_of({1, -1, 4});
  const auto op = [&](Tape& tape, const std::vector<Variable>& in) {
    const Variable h = ops::linear(tape, in[0], in[1]);
    const auto near = ops::linear_cross_entropy(tape, h, in[1], targets, {}, 6 * 8);
    const auto far = ops::linear_cross_entropy(tape, h, in[1], shifted, {}, kAllAtOnce);
    return ops::add(tape, near.objective, far.objective);
  };
  GradientCheck(op, {random_tensor({3, 6}, 1), random_tensor({6, 6}, 2)}).run();
}

TEST(LinearCrossEntropy, WeightGradientTakesNoMemoryOfItsOwn) {
  const int64_t vocabulary = 4096, width = 64, rows = 32;
  const Variable hidden(random_tensor<float>({rows, width}, 1), true),
      weight(random_tensor<float>({vocabulary, width}, 2), true);
  weight.bind_gradient(Tensor::zeros({vocabulary, width}, DType::f32));
  const Tensor targets = Tensor::zeros({rows}, DType::i32);
  const int64_t chunk_bytes = 4 * vocabulary * 4;
  allocator::reset_peak({});
  const int64_t before = allocator::use({}).live_bytes;
  Tape tape;
  tape.backward(ops::linear_cross_entropy(tape, hidden, weight, targets, {}, chunk_bytes).objective);
  const int64_t logits = allocator::block_bytes(chunk_bytes), dhidden = allocator::block_bytes(rows * width * 4);
  EXPECT_LE(allocator::use({}).peak_bytes - before, logits + dhidden + 1024);
  EXPECT_LT(logits, rows * vocabulary * 4);
}

TEST(LinearCrossEntropy, ChunksNeverHoldAllLogitsOfLargeProblems) {
  using ops::cross_entropy_chunk_rows;
  EXPECT_EQ(cross_entropy_chunk_rows(256, 50257, 4, 48 << 20), 128) << "evened out: 2 x 128, not 250 + 6";
  EXPECT_EQ(cross_entropy_chunk_rows(512, 50257, 4, 48 << 20), 171);
  EXPECT_EQ(cross_entropy_chunk_rows(100, 512, 4, 48 << 20), 100);
  EXPECT_EQ(cross_entropy_chunk_rows(8192, 128256, 4, 1), 1);
  EXPECT_EQ(cross_entropy_chunk_rows(0, 128256, 4, 1), 1);
  for (const int64_t rows : {7, 512, 8192, 65536}) {
    for (const int64_t vocabulary : {512, 50257, 128256}) {
      const int64_t chunk = cross_entropy_chunk_rows(rows, vocabulary, 4, 48 << 20);
      EXPECT_LE(chunk * vocabulary * 4, 48 << 20);
      if (rows * vocabulary * 4 > (48 << 20)) {
        EXPECT_LT(chunk, rows);
      }
    }
  }
}

TEST(LinearCrossEntropy, RowsWithoutTargetContributeExactlyNothing) {
  const testing::NanMemory nan;
  Tape tape;
  const Variable hidden(random_tensor<float>({5, 8}, 1), true), weight(random_tensor<float>({9, 8}, 2), true);
  const auto result =
      ops::linear_cross_entropy(tape, hidden, weight, targets_of({-1, 3, -1, -1, -1}), {0.1, 1e-3}, 9 * 4);
  tape.backward(result.objective);
  for (int64_t i = 0; i < 40; ++i) {
    if (i / 8 == 1) continue;
    EXPECT_EQ(hidden.grad().data<float>()[i], 0.0f);
  }
  // The same single row alone.
  Tape alone;
  const Variable row(hidden.value().rows(1, 2).clone(), true), same(weight.value(), true);
  const auto expected = ops::linear_cross_entropy(alone, row, same, targets_of({3}), {0.1, 1e-3}, 9 * 4);
  alone.backward(expected.objective);
  EXPECT_EQ(result.cross_entropy_sum, expected.cross_entropy_sum);
  EXPECT_EQ(bytes_of(weight.grad()), bytes_of(same.grad()));
}

TEST(LinearCrossEntropy, NoValidTargetIsHarmless) {
  const testing::NanMemory nan;
  for (const int64_t chunk_bytes : {int64_t{1}, kAllAtOnce}) {
    Tape tape;
    const Variable hidden(random_tensor<float>({4, 3}, 1), true), weight(random_tensor<float>({5, 3}, 2), true);
    const auto result =
        ops::linear_cross_entropy(tape, hidden, weight, targets_of({-1, -1, -1, -1}), {0.1, 1e-3}, chunk_bytes);
    EXPECT_EQ(result.cross_entropy_sum, 0.0);
    EXPECT_EQ(result.valid_targets, 0);
    tape.backward(result.objective);
    EXPECT_EQ(hidden.grad().to_vector<float>(), std::vector<float>(12, 0.0f));
    EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(15, 0.0f));
  }
}

// Bug log O1: gradients of loss sums over micro-batches add up to those of the whole batch.
TEST(LinearCrossEntropy, MicroBatchesOfUnequalTargetCountsSumToTheWhole) {
  const int64_t rows = 100, width = 64, vocabulary = 67;
  const Tensor hidden = random_tensor<float>({rows, width}, 1), weight = random_tensor<float>({vocabulary, width}, 2);
  const Tensor all = Tensor::empty({rows}, DType::i32);
  for (int32_t i = 0; i < rows; ++i) all.data<int32_t>()[i] = i * 7 % static_cast<int32_t>(vocabulary);
  const auto masked = [&](int64_t begin, int64_t end) {
    const Tensor targets = all.clone();
    for (int64_t i = 0; i < rows; ++i) {
      if (i < begin || i >= end) targets.data<int32_t>()[i] = -1;
    }
    return targets;
  };
  const auto gradients = [&](const std::vector<Tensor>& micro_batches, double& loss, int64_t& valid) {
    const Variable w(weight, true);
    w.bind_gradient(Tensor::empty(weight.shape(), DType::f32));
    loss = 0;
    valid = 0;
    for (const Tensor& targets : micro_batches) {
      Tape tape;
      const auto result = ops::linear_cross_entropy(tape, Variable(hidden), w, targets, {}, 40 * vocabulary * 4);
      tape.backward(result.objective);
      loss += result.cross_entropy_sum;
      valid += result.valid_targets;
    }
    return w.grad().to_vector<float>();
  };
  double whole_loss = 0, split_loss = 0;
  int64_t whole_valid = 0, split_valid = 0;
  const std::vector<float> whole = gradients({all}, whole_loss, whole_valid);
  const std::vector<float> split = gradients({masked(0, 3), masked(3, 100), masked(0, 0)}, split_loss, split_valid);
  EXPECT_EQ(whole_valid, 100);
  EXPECT_EQ(split_valid, 100);
  EXPECT_NEAR(split_loss / whole_loss, 1.0, 1e-6);
  double largest = 0, worst = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(whole[i])));
    worst = std::max(worst, std::abs(static_cast<double>(whole[i]) - split[i]));
  }
  EXPECT_LT(worst / largest, 1e-6);
}

TEST(LinearCrossEntropy, Bf16WeightActsAsItsFloatValue) {
  const Tensor w = random_tensor<float>({9, 8}, 2).to(DType::bf16), h = random_tensor<float>({3, 8}, 1);
  std::vector<std::byte> gradients[2];
  for (const bool stored_as_bf16 : {true, false}) {
    Tape tape;
    const Variable weight(stored_as_bf16 ? w : w.to(DType::f32), true);
    tape.backward(
        ops::linear_cross_entropy(tape, Variable(h), weight, targets_of({1, 2, 8}), {}, kAllAtOnce).objective);
    EXPECT_EQ(weight.grad().dtype(), DType::f32);
    gradients[stored_as_bf16] = bytes_of(weight.grad());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST(LinearCrossEntropy, ADroppedTapeLeavesTheGradientAlone) {
  const Variable weight(random_tensor<float>({9, 8}, 2), true);
  const Tensor memory = Tensor::zeros({9, 8}, DType::f32);
  weight.bind_gradient(memory);
  {
    Tape tape;
    ops::linear_cross_entropy(tape, Variable(random_tensor<float>({3, 8}, 1)), weight, targets_of({1, 2, 8}), {},
                              kAllAtOnce);
  }
  EXPECT_FALSE(weight.grad().defined());
  weight.give_gradient(Tensor::zeros({9, 8}, DType::f32));
  EXPECT_EQ(memory.to_vector<float>(), std::vector<float>(72, 0.0f));
}

TEST(LinearCrossEntropy, MistakesAreErrors) {
  Tape tape;
  const auto call = [&](Shape hidden, Shape weight, const Tensor& targets) {
    ops::linear_cross_entropy(tape, Variable(Tensor::zeros(hidden, DType::f32)),
                              Variable(Tensor::zeros(weight, DType::f32)), targets, {}, kAllAtOnce);
  };
  testing::expect_error(Fault::kInternal, {"linear_cross_entropy: ", "[2, 3]", "[5, 4]"}, [&] {
    call({2, 3}, {5, 4}, targets_of({0, 0}));
  });
  testing::expect_error(Fault::kInternal, {"linear_cross_entropy: ", "[2, 3]", "[3]"}, [&] {
    call({2, 3}, {5, 3}, targets_of({0, 0, 0}));
  });
  testing::expect_error(Fault::kUser, {"linear_cross_entropy: target 5 at row 1 position 0", "vocabulary of 5"}, [&] {
    call({4, 3}, {5, 3}, Tensor::from<int32_t>({2, 2}, {0, 4, 5, 0}));
  });
}

}  // namespace
}  // namespace longhaul
