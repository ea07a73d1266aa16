#include "kernels/membership_gates.h"

#include <array>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
struct Gate {
  int64_t tokens, regimes, columns;
  std::vector<T> x, memberships, weight, dy;
  std::vector<T> y, gate, dx, dmemberships, dweight;

  Gate(int64_t token_count, int64_t regime_count, int64_t column_count)
      : tokens(token_count), regimes(regime_count), columns(column_count) {
    x = random_values<T>(tokens * columns, 1);
    memberships = random_values<T>(tokens * regimes, 2);
    weight = random_values<T>(regimes, 3);
    dy = random_values<T>(tokens * columns, 4);
  }
  Gate& forward() {
    y.assign(x.size(), T(NAN));
    gate.assign(static_cast<size_t>(tokens), T(NAN));
    membership_gate_forward<T>(Cpu{}, y.data(), gate.data(), x.data(), memberships.data(), weight.data(), tokens,
                               regimes, columns);
    return *this;
  }
  Gate& backward(bool accumulate = false, T before = T(NAN)) {
    dx.assign(x.size(), before);
    dmemberships.assign(memberships.size(), before);
    dweight.assign(weight.size(), before);
    std::vector<T> dscore(static_cast<size_t>(tokens));
    membership_gate_backward<T>(Cpu{}, dx.data(), accumulate, dmemberships.data(), accumulate, dweight.data(),
                                accumulate, dscore.data(), dy.data(), x.data(), gate.data(), memberships.data(),
                                weight.data(), tokens, regimes, columns);
    return *this;
  }
};

template <typename T>
class MembershipGateTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MembershipGateTest, ElementTypes);

TYPED_TEST(MembershipGateTest, ValuesByHand) {
  Gate<TypeParam> g(2, 2, 2);
  g.x = {1, 2, 3, 4};
  g.memberships = {0.5, 0.5, 1, 0};
  g.weight = {2, -2};  // scores 0 and 2
  g.dy = {1, 1, 1, -1};
  g.forward().backward();
  const double gate = 1 / (1 + std::exp(-2.0)), slope = gate * (1 - gate);
  EXPECT_EQ(g.y[0], TypeParam(0.5));
  EXPECT_EQ(g.y[1], TypeParam(1));
  EXPECT_NEAR(g.y[2], 3 * gate, 1e-6);
  EXPECT_NEAR(g.dx[3], -gate, 1e-6);
  EXPECT_NEAR(g.dmemberships[0], 0.75 * 2, 1e-6);  // (1 + 2) / 4 times the weight
  EXPECT_NEAR(g.dmemberships[3], -1 * slope * -2, 1e-6);
  EXPECT_NEAR(g.dweight[0], 0.75 * 0.5 - slope, 1e-6);
  EXPECT_NEAR(g.dweight[1], 0.75 * 0.5, 1e-6);
}

TYPED_TEST(MembershipGateTest, GradientsAreAddedOnRequestAndLeftOutWhenNull) {
  const Gate<TypeParam> alone = Gate<TypeParam>(7, 4, 19).forward().backward();
  const Gate<TypeParam> added = Gate<TypeParam>(7, 4, 19).forward().backward(true, 0.5);
  for (const auto member : {&Gate<TypeParam>::dx, &Gate<TypeParam>::dmemberships, &Gate<TypeParam>::dweight})
    for (size_t i = 0; i < (alone.*member).size(); ++i) EXPECT_NEAR((added.*member)[i], (alone.*member)[i] + 0.5, 1e-5);
  std::vector<TypeParam> dweight(4, TypeParam(NAN)), dscore(7);
  membership_gate_backward<TypeParam>(Cpu{}, nullptr, false, nullptr, false, dweight.data(), false, dscore.data(),
                                      alone.dy.data(), alone.x.data(), alone.gate.data(), alone.memberships.data(),
                                      alone.weight.data(), 7, 4, 19);
  EXPECT_TRUE(same_bits(dweight, alone.dweight));
}

TYPED_TEST(MembershipGateTest, SameBitsOnAnyThreads) {
  expect_same_on_any_threads([] {
    Gate<TypeParam> g(400, 4, 130);
    g.forward().backward();
    std::vector<TypeParam> all = g.y;
    for (const auto* part : {&g.dx, &g.dmemberships, &g.dweight}) all.insert(all.end(), part->begin(), part->end());
    return all;
  });
}

TEST(MembershipGate, GradientsMatchFiniteDifferences) {
  for (const auto& [tokens, regimes, columns] : {std::array<int64_t, 3>{1, 1, 1}, {3, 2, 5}, {4, 8, 3}}) {
    Gate<double> g(tokens, regimes, columns);
    g.forward().backward();
    const auto numeric = [&g](std::vector<double> Gate<double>::*input) {
      return numeric_gradient(g.*input, [&g, input](const std::vector<double>& moved) {
        Gate<double> other = g;
        other.*input = moved;
        return dot(other.forward().y, g.dy);
      });
    };
    EXPECT_LT(relative_error(g.dx, numeric(&Gate<double>::x)), 1e-8);
    EXPECT_LT(relative_error(g.dmemberships, numeric(&Gate<double>::memberships)), 1e-8);
    EXPECT_LT(relative_error(g.dweight, numeric(&Gate<double>::weight)), 1e-8);
  }
}

template <typename T>
class EntropyFloorTest : public ::testing::Test {};
TYPED_TEST_SUITE(EntropyFloorTest, ElementTypes);

TYPED_TEST(EntropyFloorTest, ValuesByHand) {
  // Uniform; all in one regime; between; all in one regime, but no valid target.
  const std::vector<TypeParam> m = {0.5, 0.5, 1, 0, 0.25, 0.75, 0, 1};
  const std::vector<int32_t> targets = {3, 0, 5, -1};
  const double least = 0.9 * std::log(2.0), entropy = -0.25 * std::log(0.25) - 0.75 * std::log(0.75);
  EXPECT_NEAR(membership_entropy(m.data() + 4, 2), entropy, 1e-15);
  EXPECT_EQ(membership_entropy(m.data() + 2, 2), 0);
  EXPECT_NEAR(entropy_floor_forward<TypeParam>(Cpu{}, m.data(), targets.data(), 0.9, 4, 2), least + (least - entropy),
              1e-15);
  std::vector<TypeParam> dm(8, TypeParam(NAN));
  entropy_floor_backward<TypeParam>(Cpu{}, dm.data(), false, 2, m.data(), targets.data(), 0.9, 4, 2);
  const std::vector<double> expected = {
      0, 0, 2, 2 * (std::log(1e-30) + 1), 2 * (std::log(0.25) + 1), 2 * (std::log(0.75) + 1), 0, 0};
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(dm[i], expected[i], 1e-5) << i;
  entropy_floor_backward<TypeParam>(Cpu{}, dm.data(), true, 2, m.data(), targets.data(), 0.9, 4, 2);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(dm[i], 2 * expected[i], 1e-4) << i;
}

TYPED_TEST(EntropyFloorTest, OneRegimeHasNoFloor) {
  const std::vector<TypeParam> m = {1, 1};
  const std::vector<int32_t> targets = {0, 0};
  EXPECT_EQ(entropy_floor_forward<TypeParam>(Cpu{}, m.data(), targets.data(), 1, 2, 1), 0);
}

}  // namespace
}  // namespace longhaul::kernels
