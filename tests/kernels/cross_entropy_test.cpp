#include "kernels/cross_entropy.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class CrossEntropyTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CrossEntropyTest, ElementTypes);

template <typename T>
struct Loss {
  std::vector<double> cross_entropy, objective;
  std::vector<T> dlogits;
};

template <typename T>
Loss<T> run(const std::vector<T>& logits, const std::vector<int32_t>& targets, CrossEntropyOptions options = {}) {
  Loss<T> loss;
  loss.cross_entropy.assign(targets.size(), NAN);
  loss.objective.assign(targets.size(), NAN);
  loss.dlogits.assign(logits.size(), T(NAN));
  const auto rows = static_cast<int64_t>(targets.size());
  softmax_cross_entropy<T>(Cpu{}, loss.cross_entropy.data(), loss.objective.data(), loss.dlogits.data(), logits.data(),
                           targets.data(), rows, static_cast<int64_t>(logits.size()) / rows, options);
  return loss;
}

/// Objective of one row by the definition: cross-entropy with the smoothed target plus z_loss * log(Z)^2.
double objective_of(const double* logits, int64_t vocabulary, int64_t target, CrossEntropyOptions options) {
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[i]);
  const double log_z = std::log(sum);
  double result = options.z_loss * log_z * log_z;
  for (int64_t i = 0; i < vocabulary; ++i) {
    const double weight =
        options.label_smoothing / static_cast<double>(vocabulary) + (i == target ? 1 - options.label_smoothing : 0);
    result += weight * (log_z - logits[i]);
  }
  return result;
}

const CrossEntropyOptions kAllOptions[] = {{0, 0}, {0.1, 0}, {0, 1e-2}, {0.2, 1e-3}};

TYPED_TEST(CrossEntropyTest, MatchesTheDefinitionAtOddSizes) {
  for (int64_t vocabulary : {1, 2, 3, 63, 64, 65, 127, 5000})
    for (CrossEntropyOptions options : kAllOptions) {
      auto logits = random_values<TypeParam>(2 * vocabulary, 1);
      for (auto& value : logits) value *= 5;
      const std::vector<int32_t> targets = {0, static_cast<int32_t>(vocabulary - 1)};
      const auto loss = run(logits, targets, options);
      const std::vector<double> exact(logits.begin(), logits.end());
      for (size_t row = 0; row < 2; ++row) {
        const double* const in = exact.data() + static_cast<int64_t>(row) * vocabulary;
        EXPECT_NEAR(loss.cross_entropy[row], objective_of(in, vocabulary, targets[row], {}),
                    10 * tolerance<TypeParam>());
        EXPECT_NEAR(loss.objective[row], objective_of(in, vocabulary, targets[row], options),
                    10 * tolerance<TypeParam>());
      }
    }
}

TEST(CrossEntropyGradientTest, MatchesFiniteDifferences) {
  constexpr int64_t kVocabulary = 11;
  const std::vector<int32_t> targets = {3, -1, 10};
  auto logits = random_values<double>(3 * kVocabulary, 1);
  for (double& value : logits) value *= 3;
  for (CrossEntropyOptions options : kAllOptions) {
    const auto numeric = numeric_gradient(logits, [&](const std::vector<double>& moved) {
      const auto loss = run(moved, targets, options);
      return loss.objective[0] + loss.objective[1] + loss.objective[2];
    });
    EXPECT_LT(relative_error(run(logits, targets, options).dlogits, numeric), 1e-9);
  }
}

TYPED_TEST(CrossEntropyTest, WithoutOptionsTheObjectiveIsTheCrossEntropy) {
  const auto loss = run(random_values<TypeParam>(3 * 17, 1), {0, 5, 16});
  EXPECT_TRUE(same_bits(loss.objective, loss.cross_entropy));
}

TYPED_TEST(CrossEntropyTest, InvalidTargetsGiveExactZeros) {
  auto logits = random_values<TypeParam>(2 * 5, 1);
  for (size_t i = 0; i < 5; ++i) logits[i] = TypeParam(NAN);  // padding may hold anything
  const auto loss = run(logits, {-1, 2}, {0.1, 1e-3});
  EXPECT_EQ(loss.cross_entropy[0], 0);
  EXPECT_EQ(loss.objective[0], 0);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(loss.dlogits[i], 0);
  EXPECT_TRUE(std::isfinite(loss.cross_entropy[1]));
}

TYPED_TEST(CrossEntropyTest, LargeAndMaskedLogits) {
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  const auto loss = run<TypeParam>({1e4, -1e4, -infinity, 1e4, 0}, {0});
  EXPECT_NEAR(loss.cross_entropy[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(loss.dlogits[0], -0.5, 1e-6);
  EXPECT_EQ(loss.dlogits[2], 0);
}

TYPED_TEST(CrossEntropyTest, NanIsShownNotHidden) {
  const auto loss = run<TypeParam>({1, TypeParam(NAN), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {0});
  EXPECT_TRUE(std::isnan(loss.cross_entropy[0]));
  EXPECT_TRUE(std::isnan(loss.dlogits[3]));
}

TYPED_TEST(CrossEntropyTest, InPlaceAndOptionalResults) {
  const auto logits = random_values<TypeParam>(2 * 67, 1);
  const std::vector<int32_t> targets = {66, 1};
  const auto loss = run(logits, targets, {0.1, 1e-3});
  auto in_place = logits;
  softmax_cross_entropy<TypeParam>(Cpu{}, nullptr, nullptr, in_place.data(), in_place.data(), targets.data(), 2, 67,
                                   {0.1, 1e-3});
  EXPECT_TRUE(same_bits(in_place, loss.dlogits));
  std::vector<double> objective(2, NAN);
  softmax_cross_entropy<TypeParam>(Cpu{}, nullptr, objective.data(), nullptr, logits.data(), targets.data(), 2, 67,
                                   {0.1, 1e-3});
  EXPECT_TRUE(same_bits(objective, loss.objective));
}

TYPED_TEST(CrossEntropyTest, CorrectIsTheFirstOfTheLargestLogits) {
  const std::vector<TypeParam> logits = {1, 3, 2, 3, 1, 3, 3, 1, 3, 0, 0, 0, 0, 0, 0, 5, 4, 3};
  const std::vector<int32_t> targets = {1, 0, 2, 0, 1, -1};
  std::vector<uint8_t> correct(6, 9), in_place_correct(6, 9);
  softmax_cross_entropy<TypeParam>(Cpu{}, nullptr, nullptr, nullptr, logits.data(), targets.data(), 6, 3, {},
                                   correct.data());
  EXPECT_EQ(correct, (std::vector<uint8_t>{1, 1, 0, 1, 0, 0}));
  auto in_place = logits;  // the gradient overwrites what is compared
  softmax_cross_entropy<TypeParam>(Cpu{}, nullptr, nullptr, in_place.data(), in_place.data(), targets.data(), 6, 3, {},
                                   in_place_correct.data());
  EXPECT_EQ(in_place_correct, correct);
}

TYPED_TEST(CrossEntropyTest, SameBitsOnAnyThreadsAndInAnyRow) {
  constexpr int64_t kRows = 9, kVocabulary = 4999;
  const auto logits = random_values<TypeParam>(kRows * kVocabulary, 1);
  std::vector<int32_t> targets;
  for (int32_t row = 0; row < kRows; ++row) targets.push_back(row * 500);
  expect_same_on_any_threads([&] { return run(logits, targets).dlogits; });
  expect_same_on_any_threads([&] { return run(logits, targets).objective; });
  const auto all = run(logits, targets);
  for (int64_t row : {1, 8}) {
    const auto begin = logits.begin() + row * kVocabulary;
    const auto one = run(std::vector<TypeParam>(begin, begin + kVocabulary), {targets[static_cast<size_t>(row)]});
    EXPECT_EQ(one.objective[0], all.objective[static_cast<size_t>(row)]);
    const auto expected = all.dlogits.begin() + row * kVocabulary;
    EXPECT_TRUE(same_bits(one.dlogits, std::vector<TypeParam>(expected, expected + kVocabulary)));
  }
}

TEST(CrossEntropyOffsetTest, RowsBeyondTwoToThe31Logits) {
  // Only the last row is a valid target; the others are never read, so their pages do not exist.
  constexpr int64_t kVocabulary = 50257, kRows = (int64_t{1} << 31) / kVocabulary + 2;
  const size_t bytes = static_cast<size_t>(kRows * kVocabulary) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "cannot reserve address space";
  float* const logits = static_cast<float*>(memory);
  logits[kRows * kVocabulary - 1] = 20;
  std::vector<int32_t> targets(static_cast<size_t>(kRows), -1);
  targets.back() = static_cast<int32_t>(kVocabulary - 1);
  std::vector<double> cross_entropy(static_cast<size_t>(kRows), NAN);
  softmax_cross_entropy<float>(Cpu{}, cross_entropy.data(), nullptr, nullptr, logits, targets.data(), kRows,
                               kVocabulary, {});
  EXPECT_EQ(cross_entropy[0], 0);
  EXPECT_NEAR(cross_entropy.back(), std::log(std::exp(20.0) + 50256) - 20, 1e-6);
  munmap(memory, bytes);
}

}  // namespace
}  // namespace longhaul::kernels
