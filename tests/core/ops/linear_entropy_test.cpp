#include "core/ops/linear_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/tensor/allocator.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::random_tensor;

/// Scores, softmax and entropy of one row written out in double.
template <typename T>
double reference(const Tensor& hidden, const Tensor& weight, int64_t row) {
  const int64_t vocabulary = weight.size(0), width = weight.size(1);
  std::vector<double> scores(static_cast<size_t>(vocabulary));
  for (int64_t v = 0; v < vocabulary; ++v)
    for (int64_t i = 0; i < width; ++i)
      scores[static_cast<size_t>(v)] +=
          static_cast<double>(hidden.data<T>()[row * width + i]) * static_cast<double>(weight.data<T>()[v * width + i]);
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0, entropy = 0;
  for (double score : scores) sum += std::exp(score - largest);
  for (double score : scores) entropy -= std::exp(score - largest) / sum * (score - largest - std::log(sum));
  return entropy / std::log(static_cast<double>(vocabulary));
}

template <typename T>
void expect_reference(int64_t rows, int64_t vocabulary, int64_t width, double scale) {
  const Tensor hidden = random_tensor<T>({rows, width}, 1, scale), weight = random_tensor<T>({vocabulary, width}, 2);
  const Tensor found = ops::linear_entropy(hidden, weight);
  ASSERT_EQ(found.shape(), Shape({rows}));
  for (int64_t row = 0; row < rows; ++row)
    EXPECT_NEAR(found.data<float>()[row], reference<T>(hidden, weight, row), 3e-6 * std::max(1.0, scale))
        << rows << " rows, vocabulary " << vocabulary << ", width " << width << ", scale " << scale;
}

TEST(LinearEntropy, MatchesTheDefinition) {
  for (const int64_t vocabulary : {2, 11, 1023, 1024, 1025, 2100})
    for (const double scale : {0.1, 3.0}) {
      expect_reference<float>(3, vocabulary, 9, scale);
      expect_reference<double>(2, vocabulary, 9, scale);
    }
  expect_reference<float>(1030, 37, 3, 1.0);
}

TEST(LinearEntropy, HugeScoresStayWithinItsRange) {
  const Tensor hidden = random_tensor<float>({40, 16}, 3, 5e3), weight = random_tensor<float>({1500, 16}, 4);
  const Tensor found = ops::linear_entropy(hidden, weight);
  for (const float entropy : found.span<float>()) {
    EXPECT_GE(entropy, 0.0f);
    EXPECT_LE(entropy, 1.0f);
  }
  const Tensor none = Tensor::zeros({2, 16}, DType::f32);
  EXPECT_EQ(ops::linear_entropy(none, weight).to_vector<float>(), std::vector<float>({1.0f, 1.0f}));
}

TEST(LinearEntropy, NoRowsAndBf16Weights) {
  const Tensor weight = random_tensor<float>({1100, 8}, 5), hidden = random_tensor<float>({4, 8}, 6);
  EXPECT_EQ(ops::linear_entropy(Tensor::empty({0, 8}, DType::f32), weight).count(), 0);
  const Tensor stored = weight.to(DType::bf16);
  EXPECT_EQ(ops::linear_entropy(hidden, stored).to_vector<float>(),
            ops::linear_entropy(hidden, stored.to(DType::f32)).to_vector<float>());
}

TEST(LinearEntropy, ARowAloneHasTheBitsItHasAmongOthers) {
  const Tensor hidden = random_tensor<float>({1100, 48}, 9), weight = random_tensor<float>({1500, 48}, 10);
  for (const Tape::Mode mode : {Tape::Mode::off, Tape::Mode::decode}) {
    const Tensor few = ops::linear_entropy(hidden.rows(1020, 1036), weight, "f32", mode);
    const Tensor many = ops::linear_entropy(hidden, weight, "f32", Tape::Mode::off);
    for (const int64_t row : {0, 5, 15}) {
      const Tensor alone = ops::linear_entropy(hidden.rows(1020 + row, 1021 + row), weight, "f32", mode);
      EXPECT_EQ(alone.item<float>(), few.data<float>()[row]);
      if (mode == Tape::Mode::off) {
        EXPECT_EQ(alone.item<float>(), many.data<float>()[1020 + row]);
      }
      EXPECT_NEAR(alone.item<float>(), many.data<float>()[1020 + row], 2e-6);
    }
  }
}

TEST(LinearEntropy, NeedsLittleMemoryWhateverTheVocabulary) {
  const Tensor hidden = random_tensor<float>({3000, 4}, 7), weight = random_tensor<float>({20000, 4}, 8);
  allocator::reset_peak({});
  const int64_t before = allocator::use({}).live_bytes;
  ops::linear_entropy(hidden, weight);
  EXPECT_LE(allocator::use({}).peak_bytes - before, 5 << 20);
}

TEST(LinearEntropy, SixteenBitScoresChangeLittle) {
  const Tensor hidden = random_tensor<float>({70, 96}, 11, 2.0), weight = random_tensor<float>({1300, 96}, 12);
  const std::vector<float> exact = ops::linear_entropy(hidden, weight).to_vector<float>();
  const std::vector<float> found = ops::linear_entropy(hidden, weight, "int16").to_vector<float>();
  double difference = 0;
  for (size_t row = 0; row < exact.size(); ++row)
    difference = std::max(difference, std::abs(static_cast<double>(found[row]) - static_cast<double>(exact[row])));
  EXPECT_LT(difference, 2e-3);
  EXPECT_GT(difference, 0.0) << "another product was asked for";
  EXPECT_EQ(ops::linear_entropy(hidden.rows(69, 70), weight, "int16").item<float>(), found[69]);
  EXPECT_EQ(ops::linear_entropy(hidden.rows(0, 2), weight, "int16", Tape::Mode::decode).to_vector<float>(),
            ops::linear_entropy(hidden.rows(0, 2), weight, "f32", Tape::Mode::decode).to_vector<float>());
  const Tensor zero = Tensor::zeros({1, 96}, DType::f32);
  EXPECT_EQ(ops::linear_entropy(zero, weight, "int16").item<float>(), 1.0f);
}

TEST(LinearEntropy, MistakesAreErrors) {
  const Tensor hidden = Tensor::zeros({2, 4}, DType::f32), weight = Tensor::zeros({5, 4}, DType::f32);
  testing::expect_error(Fault::kInternal, {"linear_entropy: ", "[2, 4]", "[5, 3]"}, [&] {
    ops::linear_entropy(hidden, Tensor::zeros({5, 3}, DType::f32));
  });
  testing::expect_error(Fault::kInternal, {"linear_entropy: ", "[1, 4]"}, [&] {
    ops::linear_entropy(hidden, Tensor::zeros({1, 4}, DType::f32));
  });
  testing::expect_error(Fault::kUser, {"gate.product", "fp4", "f32"},
                        [&] { ops::linear_entropy(hidden, weight, "fp4"); });
}

}  // namespace
}  // namespace longhaul
