#include "core/control/guardian.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/control/controller_random.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

ValidationMeasure measure(double gate_delta, double saturation, double entropy, double cross_entropy) {
  return {true, "valid", cross_entropy, gate_delta, saturation, entropy};
}

const ValidationMeasure kPlain = measure(0.1, 0.2, 0.8, 5);

/// A model whose cross entropy is convex in tau, with noise, and whose gates tell on which side of the best tau is.
ValidationMeasure noisy_validation(double tau, double best, uint64_t seed, int64_t number) {
  const double distance = tau - best;
  const double noise = 0.002 * ControllerRandom(seed, ControllerStream::context_game, number).normal(0);
  return measure(20 * distance, 0.4, 0.7, 1 + distance * distance + noise);
}

TEST(Guardian, TraceEqualsTheOneComputedFromTheEquations) {
  struct Expected {
    double reward, action[3], tau, lambda_delta, lambda_saturation;
  };
  // Printed by guardian_trace.py beside this file.
  const Expected expected[] = {
      {0.0,
       {0.8577346601246465, 1.9315463473704684, -0.4403385089866393},
       1.2463176716467308,
       0.13863092694740936,
       0.09119322982026722},
      {-4.783757079417361,
       {-1.6269171962806148, 1.1754043753181174, -0.8591487279766619},
       1.1519802090857454,
       0.1613496956108445,
       0.07458719907182484},
      {-4.467249222626552,
       {2.171621787232352, 1.0355283906161425, -0.37853548421225863},
       1.266481289652359,
       0.18072359884699118,
       0.06750510464637635},
      {-5.02,
       {0.7447349977000453, 0.13871570369199399, 0.05594068196581235},
       1.296300748291523,
       0.18323934685087537,
       0.06851964485520445},
      {-4.152491899103162,
       {-0.12523834841534093, 0.9077052354684362, 0.36691063716199745},
       1.280718107463892,
       0.19921828677018572,
       0.074978617215259},
  };
  ValidationMeasure unfinished = kPlain;
  unfinished.finished = false;
  const ValidationMeasure validations[] = {
      measure(0.30, 0.20, 0.90, 5.9), measure(0.20, 0.25, 0.85, 5.7),  unfinished,
      measure(0.10, 0.40, 0.80, 5.5), measure(0.15, 0.45, 0.78, 5.52), measure(0.05, 0.70, 0.60, 5.3)};
  Guardian guardian({.tau_start = 1.2, .tau_soft_max = 1.2, .beta = 2, .time_scale = 20, .power = 0.7, .seed = 7});
  const Expected* next = expected;
  for (const ValidationMeasure& validation : validations) {
    const Guardian::Decision decision = guardian.decide(validation);
    EXPECT_EQ(decision.acted, validation.finished);
    if (!decision.acted) continue;
    EXPECT_NEAR(decision.reward, next->reward, 1e-12);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(decision.action[i], next->action[i], 1e-10);
    EXPECT_NEAR(decision.tau, next->tau, 1e-10);
    EXPECT_NEAR(decision.lambda_delta, next->lambda_delta, 1e-10);
    EXPECT_NEAR(decision.lambda_saturation, next->lambda_saturation, 1e-10);
    ++next;
  }
}

TEST(Guardian, EndsAtTheMaximiserOfANoisyConcaveReward) {
  int near = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Guardian guardian({.beta = 2, .time_scale = 50, .power = 0.7, .seed = seed});
    for (int64_t number = 0; number < 500; ++number)
      guardian.decide(noisy_validation(guardian.tau(), 1.0, seed, number));
    near += std::fabs(guardian.tau() - 1.0) <= 0.05;
  }
  EXPECT_GE(near, 95);
}

TEST(Guardian, StepSizesFallWithThePowerOrStay) {
  const Guardian falling({.beta = 3, .time_scale = 10, .power = 1});
  EXPECT_DOUBLE_EQ(falling.step_size(0), 3);
  EXPECT_DOUBLE_EQ(falling.step_size(10), 1.5);
  EXPECT_DOUBLE_EQ(falling.step_size(20), 1);
  const Guardian constant({.beta = 3, .power = 0});
  EXPECT_EQ(constant.step_size(1000), 3);
}

TEST(Guardian, RewardPaysMoreForTheSameGainTheLowerTheCrossEntropy) {
  const Guardian guardian({.gain_weight = 2, .low_gain_weight = 3, .zone = 5});
  double before = -INFINITY;
  for (const double previous : {7.0, 6.0, 5.5, 5.0, 4.5}) {
    const double bonus = guardian.reward(previous, previous - 0.1) + (previous - 0.1) - 2 * 0.1;
    EXPECT_GT(bonus, before);
    before = bonus;
  }
  EXPECT_DOUBLE_EQ(guardian.reward(5, 5.2), -5.2 + 3 * 0.5);  // a loss is only paid by the cross entropy
  EXPECT_DOUBLE_EQ(guardian.reward(5, 4.9), -4.9 + 0.2 + 3 / (1 + std::exp(-20 * (5 - 4.9) * 0.5)));
}

TEST(Guardian, WeightsAndTemperatureStayInTheirRanges) {
  Guardian guardian({.beta = 40, .power = 0, .seed = 2});
  double most_tau = 0, least_tau = 2, most_delta = 0, most_saturation = 0;
  for (int64_t number = 0; number < 200; ++number) {
    guardian.decide(kPlain);
    most_tau = std::max(most_tau, guardian.tau());
    least_tau = std::min(least_tau, guardian.tau());
    most_delta = std::max(most_delta, guardian.lambda_delta());
    most_saturation = std::max(most_saturation, guardian.lambda_saturation());
    ASSERT_GE(guardian.lambda_delta(), 0);
    ASSERT_GE(guardian.lambda_saturation(), 0);
  }
  EXPECT_EQ(most_tau, 1.6);
  EXPECT_EQ(least_tau, 0.3);
  EXPECT_EQ(most_delta, 1);
  EXPECT_EQ(most_saturation, 0.6);
}

TEST(Guardian, NoActionOnAValidationThatCannotBeUsed) {
  Guardian guardian({.seed = 5});
  guardian.decide(kPlain);
  const Guardian::State before = guardian.state();
  ValidationMeasure unfinished = kPlain, not_finite = kPlain, other = kPlain;
  unfinished.finished = false;
  not_finite.cross_entropy = std::numeric_limits<double>::quiet_NaN();
  other.data = "another split";
  for (const ValidationMeasure& bad : {unfinished, not_finite, other}) {
    const Guardian::Decision decision = guardian.decide(bad);
    EXPECT_FALSE(decision.acted || decision.rewarded);
    EXPECT_EQ(guardian.state(), before);
    EXPECT_NE(decision.line().find("no action"), std::string::npos) << decision.line();
  }
  EXPECT_TRUE(guardian.decide(kPlain).rewarded);  // the action is paid by the next usable one
}

TEST(Guardian, BaselinesTakeOffTheirPart) {
  const ValidationMeasure next = measure(0.1, 0.2, 0.8, 4.9), last = measure(0.1, 0.2, 0.8, 4.7);
  Guardian none({.baseline = Guardian::Baseline::none}), unchanged({}), mean({.baseline = Guardian::Baseline::mean});
  for (Guardian* guardian : {&none, &unchanged, &mean}) guardian->decide(kPlain);
  const Guardian::Decision plain = none.decide(next);
  EXPECT_EQ(plain.advantage, plain.reward);
  EXPECT_DOUBLE_EQ(unchanged.decide(next).advantage, plain.reward - none.reward(5, 5));
  EXPECT_EQ(mean.decide(next).advantage, 0);  // the first reward is its own mean
  EXPECT_DOUBLE_EQ(mean.decide(last).advantage, none.reward(4.9, 4.7) - plain.reward);
}

TEST(Guardian, RestoredStateContinuesAlike) {
  const Guardian::Options options{.beta = 2, .baseline = Guardian::Baseline::mean, .seed = 9};
  Guardian first(options), second(options);
  for (int64_t number = 0; number < 7; ++number) first.decide(noisy_validation(first.tau(), 1, 9, number));
  second.set_state(first.state());
  for (int64_t number = 7; number < 20; ++number) {
    first.decide(noisy_validation(first.tau(), 1, 9, number));
    second.decide(noisy_validation(second.tau(), 1, 9, number));
  }
  EXPECT_EQ(first.state(), second.state());
}

TEST(Guardian, RefusesAStateOfAnotherPolicy) {
  Guardian guardian({});
  Guardian::State state = guardian.state();
  state.policy.second_moments.pop_back();
  EXPECT_THROW(guardian.set_state(state), Error);
}

TEST(Guardian, ARewardThatFallsWithTauDrivesItIntoOverTightening) {
  Guardian guardian({.beta = 3, .power = 0, .seed = 1});
  EXPECT_EQ(guardian.decide(kPlain).over_tightening, 0);
  Guardian::Decision decision;
  for (int64_t number = 0; number < 300; ++number)
    decision = guardian.decide(measure(0.1, 0.2, 0.8, 1 + guardian.tau()));
  EXPECT_GT(decision.over_tightening, 0.7);
  EXPECT_LT(decision.tau, 0.4);
  EXPECT_NEAR(decision.over_tightening, (0.6 - decision.tau) / 0.3, 1e-12);
}

TEST(Guardian, SaturationBeyondTheLimitIsReported) {
  Guardian guardian({.saturation_limit = 0.6});
  EXPECT_EQ(guardian.decide(measure(0.1, 0.6, 0.2, 5)).over_saturation, 0);
  EXPECT_NEAR(guardian.decide(measure(0.1, 0.8, 0.1, 5)).over_saturation, 0.5, 1e-12);
  const Guardian::Decision decision = guardian.decide(measure(0.1, 1, 0, 5));
  EXPECT_NEAR(decision.over_saturation, 1, 1e-12);
  EXPECT_NE(decision.line().find("over-saturation 1.000"), std::string::npos) << decision.line();
}

TEST(Guardian, RefusesPowersWithoutAGuarantee) {
  EXPECT_THROW(Guardian({.power = 0.5}), Error);
  EXPECT_THROW(Guardian({.power = 1.1}), Error);
  EXPECT_THROW(Guardian({.tau_start = 0.2}), Error);
  EXPECT_THROW(Guardian({.time_scale = 0}), Error);
}

}  // namespace
}  // namespace longhaul
