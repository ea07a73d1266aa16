#include "core/ops/dropout.h"

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"
#include "tests/core/ops/sample_batch.h"

namespace longhaul {
namespace {

using testing::batch_of_samples;
using testing::random_tensor;

std::vector<float> mask(kernels::RandomKey key, const Batch& batch, double probability = 0.5) {
  Tape tape(Tape::Mode::off);
  const Tensor ones = Tensor::empty({batch.tokens(), 10}, DType::f32);
  for (float& value : ones.span<float>()) value = 1.0f;
  return ops::dropout(tape, Variable(ones), probability, key, batch).value().to_vector<float>();
}

TEST(Dropout, ProbabilityZeroIsTheInputItself) {
  Tape tape;
  const Variable x(random_tensor({4, 3}, 1), true);
  const Variable y = ops::dropout(tape, x, 0.0, {1, 1, 1}, batch_of_samples(2, 2, {0, 1}));
  EXPECT_EQ(y.value().raw(), x.value().raw());
  tape.backward_from(y, random_tensor({4, 3}, 2));
  EXPECT_TRUE(x.grad().defined());
}

TEST(Dropout, GradientsUseTheMaskOfTheForwardPass) {
  const Batch batch = batch_of_samples(3, 2, {5, 6, 1000000000007});
  const auto op = [&batch](Tape& tape, const std::vector<Variable>& in) {
    return ops::dropout(tape, in[0], 0.3, {42, 7, 3}, batch);
  };
  testing::GradientCheck(op, {random_tensor({6, 5}, 1)}).run();
}

TEST(Dropout, KeepsTheExpectedShareAndScalesIt) {
  const std::vector<float> values = mask({1, 2, 3}, batch_of_samples(1, 2000, {4}), 0.25);
  int64_t kept = 0;
  for (const float value : values) {
    if (value == 0.0f) continue;
    EXPECT_FLOAT_EQ(value, 1.0f / 0.75f);
    ++kept;
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(values.size()), 0.75, 0.02);
}

TEST(Dropout, MaskBelongsToTheSampleNotToItsPlace) {
  const kernels::RandomKey key{1, 2, 3};
  const std::vector<float> together = mask(key, batch_of_samples(2, 3, {8, 9}));
  const std::vector<float> eight = mask(key, batch_of_samples(1, 3, {8})),
                           nine = mask(key, batch_of_samples(1, 3, {9}));
  EXPECT_EQ(std::vector<float>(together.begin(), together.begin() + 30), eight);
  EXPECT_EQ(std::vector<float>(together.begin() + 30, together.end()), nine);
  EXPECT_NE(eight, nine);
}

TEST(Dropout, EveryPartOfTheKeyChangesTheMask) {
  const Batch batch = batch_of_samples(1, 3, {8});
  const std::vector<float> base = mask({1, 2, 3}, batch);
  EXPECT_NE(base, mask({2, 2, 3}, batch));
  EXPECT_NE(base, mask({1, 3, 3}, batch));
  EXPECT_NE(base, mask({1, 2, 4}, batch));
  EXPECT_EQ(base, mask({1, 2, 3}, batch));
}

TEST(Dropout, MistakesAreErrors) {
  Tape tape;
  const Variable x(Tensor::zeros({4, 3}, DType::f32));
  for (const double probability : {-0.1, 1.0, std::nan("")}) {
    testing::expect_error(Fault::kInternal, {"dropout: probability"}, [&] {
      ops::dropout(tape, x, probability, {}, batch_of_samples(2, 2, {0, 1}));
    });
  }
  testing::expect_error(Fault::kInternal, {"dropout: ", "[4, 3]", "6 tokens"}, [&] {
    ops::dropout(tape, x, 0.5, {}, batch_of_samples(2, 3, {0, 1}));
  });
}

}  // namespace
}  // namespace longhaul
