#include "core/control/entropy_gate.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

constexpr EntropyGate::State kStart{0.3, 0.1};

TEST(EntropyGate, ThresholdLiesKappaDeviationsAboveTheMean) {
  const EntropyGate gate({.adaptive = true, .kappa = 0.2}, kStart);
  EXPECT_FLOAT_EQ(gate.threshold(), 0.32f);
}

TEST(EntropyGate, FixedModeLiesAMarginAboveTheMean) {
  const EntropyGate gate({.adaptive = false, .kappa = 9, .margin = 0.03}, kStart);
  EXPECT_FLOAT_EQ(gate.threshold(), 0.33f);
}

TEST(EntropyGate, UpdateMovesByOneMinusMomentum) {
  EntropyGate gate({.momentum = 0.75}, kStart);
  gate.update({.count = 5, .median = 0.7, .mean = 0.1, .deviation = 0.3});
  EXPECT_DOUBLE_EQ(gate.state().mean, 0.75 * 0.3 + 0.25 * 0.7);
  EXPECT_DOUBLE_EQ(gate.state().deviation, 0.75 * 0.1 + 0.25 * 0.3);
}

TEST(EntropyGate, NoValueChangesNothingAndASingleOneLeavesTheDeviation) {
  EntropyGate gate({.momentum = 0.5}, kStart);
  gate.update({});
  EXPECT_EQ(gate.state(), kStart);
  gate.update({.count = 1, .median = 0.5, .mean = 0.5, .deviation = 0});
  EXPECT_DOUBLE_EQ(gate.state().mean, 0.4);
  EXPECT_EQ(gate.state().deviation, kStart.deviation);
}

}  // namespace
}  // namespace longhaul
