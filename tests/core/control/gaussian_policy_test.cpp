#include "core/control/gaussian_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longhaul {
namespace {

const GaussianPolicy::Features kFeatures{0.3, -0.2, 0.8, 1.7};
const GaussianPolicy::Action kAction{0.5, -1.1, 0.2};

GaussianPolicy::State policy_with_deviations() {
  GaussianPolicy::State state = GaussianPolicy::initial(3);
  state.parameters[GaussianPolicy::kParameters - 3] = 0.4;
  state.parameters[GaussianPolicy::kParameters - 2] = -0.7;
  return state;
}

TEST(GaussianPolicy, StartsWithUnitDeviationsAndSmallWeights) {
  const GaussianPolicy::State state = GaussianPolicy::initial(3);
  EXPECT_EQ(GaussianPolicy::distribution(state, kFeatures).deviation, (GaussianPolicy::Action{1, 1, 1}));
  const auto largest = [&](int64_t begin, int64_t end) {
    double most = 0;
    for (int64_t i = begin; i < end; ++i) most = std::max(most, std::fabs(state.parameters[i]));
    return most;
  };
  EXPECT_NEAR(largest(0, 320), 0.5, 0.01);
  EXPECT_NEAR(largest(320, 4675), 0.125, 0.001);
  EXPECT_EQ(GaussianPolicy::kParameters, 4678);
  EXPECT_NE(GaussianPolicy::initial(4), state);
}

TEST(GaussianPolicy, DensityOfTheMean) {
  GaussianPolicy::State state = policy_with_deviations();
  const GaussianPolicy::Action mean = GaussianPolicy::distribution(state, kFeatures).mean;
  EXPECT_NEAR(GaussianPolicy::log_density(state, kFeatures, mean), -1.5 * std::log(2 * std::numbers::pi) - 0.4 + 0.7,
              1e-14);
}

TEST(GaussianPolicy, GradientAgreesWithFiniteDifferences) {
  GaussianPolicy::State state = policy_with_deviations();
  const double advantage = -1.3, step = 1e-5;
  const std::vector<double> gradient = GaussianPolicy::gradient(state, kFeatures, kAction, advantage);
  ASSERT_EQ(gradient.size(), state.parameters.size());
  for (size_t i = 0; i < gradient.size(); i += i < 4600 ? 7 : 1) {
    const double kept = state.parameters[i];
    state.parameters[i] = kept + step;
    const double above = -advantage * GaussianPolicy::log_density(state, kFeatures, kAction);
    state.parameters[i] = kept - step;
    const double below = -advantage * GaussianPolicy::log_density(state, kFeatures, kAction);
    state.parameters[i] = kept;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-8) << "parameter " << i;
  }
}

TEST(GaussianPolicy, FirstAdamStepMovesEveryParameterByTheRateAgainstItsGradient) {
  GaussianPolicy::State state = policy_with_deviations();
  const std::vector<double> before = state.parameters;
  const std::vector<double> gradient = GaussianPolicy::gradient(state, kFeatures, kAction, 2);
  GaussianPolicy::learn(state, kFeatures, kAction, 2, 1e-3);
  EXPECT_EQ(state.updates, 1);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(state.parameters[i] - before[i], -1e-3 * gradient[i] / (std::fabs(gradient[i]) + 1e-8), 1e-12);
  }
}

TEST(GaussianPolicy, ARewardedActionBecomesLikelierAndAPunishedOneLess) {
  for (const double advantage : {1.0, -1.0}) {
    GaussianPolicy::State state = policy_with_deviations();
    const double before = GaussianPolicy::log_density(state, kFeatures, kAction);
    GaussianPolicy::learn(state, kFeatures, kAction, advantage, 1e-4);
    EXPECT_GT(advantage * (GaussianPolicy::log_density(state, kFeatures, kAction) - before), 0);
  }
}

}  // namespace
}  // namespace longhaul
