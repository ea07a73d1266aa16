#include "kernels/expert_gate.h"

#include <algorithm>
#include <array>

#include "kernels/error.h"
#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class ExpertGateTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ExpertGateTest, ElementTypes);

constexpr RandomKey kKey{.seed = 5, .step = 7, .layer = 11};

template <typename T>
struct Choice {
  std::vector<T> weights;
  std::vector<int32_t> experts;
};

template <typename T>
Choice<T> choose(const ExpertGate& gate, const std::vector<T>& logits, const std::vector<int64_t>& samples = {}) {
  const int64_t tokens = static_cast<int64_t>(logits.size()) / gate.experts;
  const size_t count = static_cast<size_t>(tokens * gate.chosen);
  Choice<T> result{std::vector<T>(count, T(NAN)), std::vector<int32_t>(count, -1)};
  const int64_t length = samples.empty() ? tokens : tokens / static_cast<int64_t>(samples.size());
  expert_gate_forward<T>(Cpu{}, result.weights.data(), result.experts.data(), logits.data(), gate, samples.data(),
                         tokens, length);
  return result;
}

TYPED_TEST(ExpertGateTest, ValuesByHand) {
  const ExpertGate gate{.experts = 4, .chosen = 2, .temperature = 0.5};
  const std::vector<TypeParam> logits = {0, 1, 0.5, -1, /**/ 2, 2, 2, 2, /**/ 0, 3, 0, 3};
  const auto [weights, experts] = choose<TypeParam>(gate, logits);
  EXPECT_EQ(experts, (std::vector<int32_t>{1, 2, 0, 1, 1, 3})) << "of equal ones the lower index";
  EXPECT_NEAR(weights[0], 1 / (1 + std::exp(-1.0)), 1e-7);  // y = 2 and 1
  EXPECT_NEAR(weights[1], 1 / (1 + std::exp(1.0)), 1e-7);
  for (size_t i = 2; i < 6; ++i) EXPECT_EQ(weights[i], 0.5);
}

TYPED_TEST(ExpertGateTest, EqualsTheSoftmaxRenormalisedOverTheChosen) {
  const ExpertGate gate{.experts = 7, .chosen = 3, .temperature = 0.7};
  const auto logits = random_values<TypeParam>(20 * 7, 1);
  const auto [weights, experts] = choose<TypeParam>(gate, logits);
  for (size_t t = 0; t < 20; ++t) {
    double sum = 0, chosen = 0;
    const auto share = [&](size_t e) { return std::exp(double(logits[t * 7 + e]) / 0.7); };
    for (size_t e = 0; e < 7; ++e) sum += share(e);
    for (size_t j = 0; j < 3; ++j) chosen += share(size_t(experts[t * 3 + j])) / sum;
    for (size_t j = 0; j < 3; ++j)
      EXPECT_NEAR(double(weights[t * 3 + j]), share(size_t(experts[t * 3 + j])) / sum / chosen, 1e-6);
  }
}

TYPED_TEST(ExpertGateTest, OneExpertOfOneCountsWhole) {
  const auto [weights, experts] = choose<TypeParam>({.experts = 1, .chosen = 1}, {-50, 3});
  EXPECT_EQ(weights, (std::vector<TypeParam>{1, 1}));
  EXPECT_EQ(experts, (std::vector<int32_t>{0, 0}));
}

TYPED_TEST(ExpertGateTest, ExpertsAreDifferentEvenWhereLogitsAreNan) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  auto [weights, experts] = choose<TypeParam>({.experts = 3, .chosen = 3}, {nan, 1, nan});
  std::sort(experts.begin(), experts.end());
  EXPECT_EQ(experts, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(std::isnan(weights[0]));
}

TYPED_TEST(ExpertGateTest, NoiseIsOfSamplePositionAndExpertAlone) {
  for (const int64_t count : {3, 4}) {  // draws come in fours
    const ExpertGate gate{.experts = count, .chosen = count, .temperature = 1, .noisy = true, .key = kKey};
    const auto size = static_cast<std::ptrdiff_t>(5 * count);
    const std::vector<TypeParam> logits(static_cast<size_t>(2 * size), 0);
    const auto both = choose(gate, logits, {9, int64_t{1} << 40}),
               swapped = choose(gate, logits, {int64_t{1} << 40, 9});
    const auto &a = both.weights, &b = swapped.weights;
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + size, b.begin() + size));
    EXPECT_TRUE(std::equal(a.begin() + size, a.end(), b.begin()));
    EXPECT_FALSE(std::equal(a.begin(), a.begin() + size, b.begin()));
    for (int64_t t = 0; t < 10; ++t)  // ratios of weights are the differences of the noise
      for (int64_t j = 0; j < count; ++j) {
        const size_t at = size_t(t * count + j), first = size_t(t * count);
        const uint64_t sample = t < 5 ? 9 : uint64_t{1} << 40;
        const double expected = gumbel_noise(kKey, sample, t % 5, both.experts[at], count) -
                                gumbel_noise(kKey, sample, t % 5, both.experts[first], count);
        EXPECT_NEAR(std::log(double(both.weights[at]) / double(both.weights[first])), expected, 1e-5);
      }
  }
}

TYPED_TEST(ExpertGateTest, WithoutNoiseTheKeyMeansNothing) {
  const auto logits = random_values<TypeParam>(40, 1);
  EXPECT_TRUE(same_bits(choose<TypeParam>({.key = {1, 2, 3}}, logits).weights,
                        choose<TypeParam>({.key = {4, 5, 6}}, logits).weights));
  EXPECT_FALSE(same_bits(choose<TypeParam>({.noisy = true, .key = {1, 2, 3}}, logits, {0}).weights,
                         choose<TypeParam>({.noisy = true, .key = {1, 3, 3}}, logits, {0}).weights));
}

TEST(GumbelNoise, HasMeanAndVarianceOfItsLaw) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) {
    const double noise = gumbel_noise(kKey, 3, i / 4, i % 4, 4);
    sum += noise;
    squares += noise * noise;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.5772, 0.03);                                     // standard error 0.0064
  EXPECT_NEAR(squares / kDraws - mean * mean, M_PI * M_PI / 6, 0.09);  // standard error 0.017
}

/// With noise of temperature 1, the first choice falls on an expert as often as its softmax says (Gumbel-max).
TEST(GumbelNoise, FirstChoiceFollowsTheSoftmax) {
  const ExpertGate gate{.experts = 2, .chosen = 1, .temperature = 0.5, .noisy = true, .key = kKey};
  std::vector<double> logits;
  for (int t = 0; t < 10000; ++t) logits.insert(logits.end(), {std::log(3.0), 0.0});
  const auto experts = choose<double>(gate, logits, {1}).experts;
  EXPECT_NEAR(static_cast<double>(std::count(experts.begin(), experts.end(), 0)) / 10000, 0.75, 0.02);
}

TEST(ExpertGateBackward, MatchesFiniteDifferences) {
  for (const auto& [tokens, count, chosen] : {std::array<int64_t, 3>{1, 1, 1}, {5, 4, 2}, {3, 4, 1}, {6, 9, 5}}) {
    const ExpertGate gate{.experts = count, .chosen = chosen, .temperature = 0.6, .noisy = true, .key = kKey};
    const auto logits = random_values<double>(tokens * count, 1), dweights = random_values<double>(tokens * chosen, 2);
    const auto [weights, experts] = choose<double>(gate, logits, {4});
    std::vector<double> dlogits(logits.size(), NAN), added(logits.size(), 0.5);
    expert_gate_backward<double>(Cpu{}, dlogits.data(), false, dweights.data(), weights.data(), experts.data(), gate,
                                 tokens);
    expert_gate_backward<double>(Cpu{}, added.data(), true, dweights.data(), weights.data(), experts.data(), gate,
                                 tokens);
    for (size_t i = 0; i < added.size(); ++i) EXPECT_NEAR(added[i], dlogits[i] + 0.5, 1e-15);
    if (chosen == 1) {  // the weight is 1 whatever the logits
      EXPECT_EQ(dlogits, std::vector<double>(logits.size(), 0.0));
      continue;
    }
    const auto numeric = numeric_gradient(logits, [&](const std::vector<double>& moved) {
      return dot(choose<double>(gate, moved, {4}).weights, dweights);
    });
    EXPECT_LT(relative_error(dlogits, numeric), 1e-8);
  }
}

TEST(ExpertGateBackward, FloatMatchesDouble) {
  const ExpertGate gate{.experts = 8, .chosen = 3, .noisy = true, .key = kKey};
  const auto run = [&]<typename T>(T) {
    const auto logits = random_values<T>(50 * 8, 1), dweights = random_values<T>(50 * 3, 2);
    const auto [weights, experts] = choose<T>(gate, logits, {4});
    std::vector<T> dlogits(logits.size());
    expert_gate_backward<T>(Cpu{}, dlogits.data(), false, dweights.data(), weights.data(), experts.data(), gate, 50);
    return dlogits;
  };
  EXPECT_LT(relative_error(run(float{}), run(double{})), 1e-5);
}

TEST(ExpertGate, SameBitsOnAnyThreads) {
  const ExpertGate gate{.experts = 4, .chosen = 2, .noisy = true, .key = kKey};
  const auto logits = random_values<float>(900 * 4, 1);
  expect_same_on_any_threads([&] {
    auto [weights, experts] = choose<float>(gate, logits, {1, 2, 3});
    weights.insert(weights.end(), experts.begin(), experts.end());
    return weights;
  });
}

TEST(ExpertGate, ImpossibleGatesAreRefused) {
  const std::vector<float> logits(130);
  EXPECT_THROW(choose<float>({.experts = 2, .chosen = 3}, logits), Error);
  EXPECT_THROW(choose<float>({.experts = 2, .chosen = 0}, logits), Error);
  EXPECT_THROW(choose<float>({.experts = 65, .chosen = 2}, logits), Error);
  EXPECT_THROW(choose<float>({.temperature = 0}, logits), Error);
}

}  // namespace
}  // namespace longhaul::kernels
