// Properties of all ops together: packing, recomputation, uninitialised memory, steady memory, readiness of gradients.
#include <gtest/gtest.h>

#include <map>

#include "core/tensor/allocator.h"
#include "tests/core/gradient_check.h"
#include "tests/core/ops/small_decoder.h"

namespace longhaul {
namespace {

using testing::bytes_of;
using testing::NanMemory;
using testing::random_tensor;
using testing::small_batch;
using testing::SmallDecoder;

struct StepResult {
  double objective = 0;
  std::vector<std::byte> gradients;
};

StepResult train_step(SmallDecoder& model, const Batch& batch, const Tensor& flat_gradients) {
  model.store().bind_gradients(flat_gradients);
  Tape tape;
  const auto result = model.loss(tape, batch);
  tape.backward(result.objective);
  model.store().zero_absent_gradients();
  return {result.objective.value().item<double>(), bytes_of(flat_gradients)};
}

StepResult train_step(SmallDecoder& model, const Batch& batch) {
  return train_step(model, batch, model.store().make_flat_buffer(DType::f32));
}

TEST(WholeOpSet, NanFilledMemoryChangesNothing) {
  const Batch batch = small_batch(2, 9, {0, 0, 0, 3, 3, 3, 3, 3, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  SmallDecoder model(0.2);
  const StepResult expected = train_step(model, batch);
  ASSERT_TRUE(std::isfinite(expected.objective));
  const NanMemory nan;
  const StepResult found = train_step(model, batch);
  EXPECT_EQ(found.objective, expected.objective);
  EXPECT_TRUE(found.gradients == expected.gradients);
}

TEST(WholeOpSet, RecomputationGivesTheSameBits) {
  const Batch batch = small_batch(3, 11);
  SmallDecoder plain(0.2, false), recomputed(0.2, true);
  const StepResult expected = train_step(plain, batch), found = train_step(recomputed, batch);
  EXPECT_EQ(found.objective, expected.objective);
  EXPECT_TRUE(found.gradients == expected.gradients);
}

TEST(WholeOpSet, Bf16StorageEqualsItsFloatValues) {
  const Batch batch = small_batch(2, 9);
  SmallDecoder stored(0.1, false, DType::bf16), widened(0.1);
  widened.store().flat_values().copy_from(stored.store().flat_values().to(DType::f32));
  const StepResult expected = train_step(widened, batch), found = train_step(stored, batch);
  EXPECT_EQ(found.objective, expected.objective);
  EXPECT_TRUE(found.gradients == expected.gradients);
}

TEST(WholeOpSet, EvaluationEqualsTraining) {
  const Batch batch = small_batch(2, 9);
  SmallDecoder model;
  Tape off(Tape::Mode::off);
  EXPECT_EQ(model.loss(off, batch).objective.value().item<double>(), train_step(model, batch).objective);
}

TEST(WholeOpSet, SteadyAfterTheFirstStep) {
  const Batch batch = small_batch(4, 16);
  for (const bool recompute : {false, true}) {
    SmallDecoder model(0.1, recompute);
    const Tensor flat = model.store().make_flat_buffer(DType::f32);
    train_step(model, batch, flat);
    const MemoryUse first = allocator::use({});
    for (int step = 0; step < 3; ++step) train_step(model, batch, flat);
    const MemoryUse later = allocator::use({});
    EXPECT_EQ(later.system_allocations, first.system_allocations) << "recompute " << recompute;
    EXPECT_EQ(later.live_bytes, first.live_bytes);
    EXPECT_EQ(later.cached_bytes, first.cached_bytes);
  }
}

TEST(WholeOpSet, EveryGradientBecomesReadyOnceTheTiedOneLast) {
  for (const bool recompute : {false, true}) {
    SmallDecoder model(0.0, recompute);
    std::map<std::string, int> ready;
    std::vector<std::string> order;
    for (const Parameter& parameter : model.store().parameters()) {
      parameter.variable.on_gradient_ready([&ready, &order, name = parameter.name] {
        ++ready[name];
        order.push_back(name);
      });
    }
    train_step(model, small_batch(2, 5));
    EXPECT_EQ(ready.size(), model.store().parameters().size());
    for (const auto& [name, count] : ready) EXPECT_EQ(count, 1) << name;
    EXPECT_EQ(order[order.size() - 2], "tokens") << "the embedding is the last op; tokens is its first input";
    EXPECT_EQ(order.back(), "positions");
  }
}

class PackedDocuments : public ::testing::Test {
 protected:
  struct Result {
    Tensor output, input_gradient, parameter_gradients;
  };

  /// Output and gradients of the blocks on rows [begin, end) of x_ under the documents of `batch`.
  Result run(const Batch& batch, const Tensor& x, int64_t begin, int64_t end) {
    const Tensor flat = model_.store().make_flat_buffer(DType::f32);
    model_.store().bind_gradients(flat);
    Tape tape;
    const Variable input(x.rows(begin, end).clone(), true);
    const Variable output = model_.blocks(tape, input, batch);
    tape.backward_from(output, seed_.rows(begin, end).clone());
    model_.store().zero_absent_gradients();
    return {output.value(), input.grad(), flat};
  }

  static constexpr int64_t kTokens = 26;
  SmallDecoder model_;
  const Tensor x_ = random_tensor<float>({kTokens, SmallDecoder::kWidth}, 5);
  const Tensor seed_ = random_tensor<float>({kTokens, SmallDecoder::kWidth}, 6);
};

std::vector<int32_t> starts_of(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> starts;
  for (const int64_t length : lengths) {
    starts.insert(starts.end(), static_cast<size_t>(length), static_cast<int32_t>(starts.size()));
  }
  return starts;
}

// One row of two documents against two rows of one: the same bits everywhere, sums over tokens included.
TEST_F(PackedDocuments, EqualSeparateRows) {
  const Result packed = run(small_batch(1, kTokens, starts_of({13, 13})), x_, 0, kTokens);
  const Result separate = run(small_batch(2, 13), x_, 0, kTokens);
  EXPECT_TRUE(bytes_of(packed.output) == bytes_of(separate.output));
  EXPECT_TRUE(bytes_of(packed.input_gradient) == bytes_of(separate.input_gradient));
  EXPECT_TRUE(bytes_of(packed.parameter_gradients) == bytes_of(separate.parameter_gradients));
}

// Bug log K3: nothing of a document reaches its neighbour.
TEST_F(PackedDocuments, DoNotSeeTheirNeighbours) {
  const Batch batch = small_batch(1, kTokens, starts_of({5, 1, 13, 7}));
  const Result before = run(batch, x_, 0, kTokens);
  const Tensor changed = x_.clone();
  for (int64_t i = 6 * SmallDecoder::kWidth; i < 19 * SmallDecoder::kWidth; ++i) changed.data<float>()[i] += 1.0f;
  const Result after = run(batch, changed, 0, kTokens);
  EXPECT_FALSE(bytes_of(before.output.rows(6, 19)) == bytes_of(after.output.rows(6, 19)));
  for (const auto& [begin, end] : {std::pair{0, 6}, std::pair{19, 26}}) {
    EXPECT_TRUE(bytes_of(before.output.rows(begin, end)) == bytes_of(after.output.rows(begin, end)));
    EXPECT_TRUE(bytes_of(before.input_gradient.rows(begin, end)) == bytes_of(after.input_gradient.rows(begin, end)));
  }
}

TEST_F(PackedDocuments, EqualLoneOnesToTheBit) {
  const std::vector<int64_t> lengths = {5, 1, 13, 7};
  const Result packed = run(small_batch(1, kTokens, starts_of(lengths)), x_, 0, kTokens);
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const Result alone = run(small_batch(1, length), x_, begin, begin + length);
    for (const auto& [together, lone] :
         {std::pair{packed.output, alone.output}, std::pair{packed.input_gradient, alone.input_gradient}}) {
      EXPECT_EQ(together.rows(begin, begin + length).to_vector<float>(), lone.to_vector<float>()) << begin;
    }
    begin += length;
  }
}

TEST_F(PackedDocuments, OwnOpsEqualLoneDocumentsToTheBit) {
  const std::vector<int64_t> lengths = {5, 1, 13, 7};
  ops::AttentionOptions attention{4, 2, 8, Tensor::empty({32, 8}, DType::f32)};
  kernels::rope_table(kernels::Cpu{}, attention.rope_table.data<float>(), 32, 8, 10000.0);
  const auto vector = [](uint64_t seed) { return Variable(random_tensor<float>({64}, seed)); };
  const Variable gain = vector(7), shift = vector(8);
  const auto chain = [&](const Batch& batch, int64_t begin, int64_t end) {
    Tape tape;
    const Variable input(x_.rows(begin, end).clone(), true);
    Variable h = ops::layer_norm(tape, input, gain, shift, 1e-5);
    h = ops::attention(tape, ops::rms_norm(tape, h, gain, 1e-6), batch, attention);
    h = ops::swiglu(tape, ops::bias_gelu(tape, h, Variable()));
    const Tensor seed = Tensor::empty(h.shape(), DType::f32);
    for (int64_t i = 0; i < seed.count(); ++i) {
      seed.data<float>()[i] = seed_.data<float>()[begin * seed.size(1) + i];
    }
    tape.backward_from(h, seed);
    return std::pair(h.value(), input.grad());
  };
  const auto [output, gradient] = chain(small_batch(1, kTokens, starts_of(lengths)), 0, kTokens);
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const auto [lone_output, lone_gradient] = chain(small_batch(1, length), begin, begin + length);
    EXPECT_TRUE(bytes_of(output.rows(begin, begin + length)) == bytes_of(lone_output)) << "document at " << begin;
    EXPECT_TRUE(bytes_of(gradient.rows(begin, begin + length)) == bytes_of(lone_gradient)) << "document at " << begin;
    begin += length;
  }
}

TEST(WholeOpSet, PackedLossesAgreeWithLoneOnes) {
  const SmallDecoder model;
  const std::vector<int32_t> starts = {0, 0, 0, 0, 0, 5, 5, 5, 5, 9, 9};
  const Batch packed = small_batch(1, 11, starts);
  Tape off(Tape::Mode::off);
  const auto together = model.loss(off, packed);
  double apart = 0;
  int64_t valid = 0;
  for (const auto& [begin, end] : {std::pair{0, 5}, std::pair{5, 9}, std::pair{9, 11}}) {
    const auto slice = [&](const Tensor& tensor) {
      const int32_t* values = tensor.data<int32_t>();
      return std::vector<int32_t>(values + begin, values + end);
    };
    const Batch alone = make_batch(1, end - begin, slice(packed.ids), slice(packed.targets), {}, {1});
    const auto result = model.loss(off, alone);
    apart += result.cross_entropy_sum;
    valid += result.valid_targets;
  }
  EXPECT_EQ(together.valid_targets, valid);
  EXPECT_NEAR(together.cross_entropy_sum, apart, 1e-5 * apart);
}

// Activation memory falls while the backward pass runs: at the end only the parameters' gradients are left.
TEST(WholeOpSet, NothingIsLeftAfterAStep) {
  SmallDecoder model(0.1);
  const Tensor flat = model.store().make_flat_buffer(DType::f32);
  const Batch batch = small_batch(2, 16);
  const int64_t before = allocator::use({}).live_bytes;
  model.store().bind_gradients(flat);
  Tape tape;
  const auto result = model.loss(tape, batch);
  const int64_t full = allocator::use({}).live_bytes;
  tape.backward(result.objective);
  EXPECT_GT(full, before + 100000);
  EXPECT_EQ(allocator::use({}).live_bytes, before + allocator::block_bytes(8)) << "the loss itself";
}

}  // namespace
}  // namespace longhaul
