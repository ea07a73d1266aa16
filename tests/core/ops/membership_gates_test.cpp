#include "core/ops/membership_gates.h"

#include <cmath>
#include <limits>

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::GradientCheck;
using testing::random_tensor;

Tensor targets_of(const std::vector<int32_t>& targets) {
  return Tensor::from<int32_t>({static_cast<int64_t>(targets.size())}, targets);
}

/// Memberships of tokens as a softmax gives them: positive, adding to 1; the larger `scale`, the sharper.
Tensor random_memberships(int64_t tokens, int64_t regimes, uint64_t seed, double scale) {
  const Tensor m = random_tensor({tokens, regimes}, seed, scale);
  for (int64_t t = 0; t < tokens; ++t) {
    double sum = 0;
    for (double& value : m.rows(t, t + 1).span<double>()) sum += value = std::exp(value);
    for (double& value : m.rows(t, t + 1).span<double>()) value /= sum;
  }
  return m;
}

TEST(ScaleRowsByGate, GradientsAreRight) {
  const auto op = [](Tape& tape, const std::vector<Variable>& in) {
    return ops::scale_rows_by_gate(tape, in[0], in[1], in[2]);
  };
  for (const int64_t tokens : {1, 5})
    for (const int64_t regimes : {1, 4, 8})
      for (const int64_t columns : {1, 7, 33})
        GradientCheck(op, {random_tensor({tokens, columns}, 1), random_memberships(tokens, regimes, 2, 2),
                           random_tensor({regimes}, 3, 2)})
            .run();
}

TEST(ScaleRowsByGate, ScalesEveryTokenByItsGate) {
  Tape tape;
  const Variable x(Tensor::from<double>({2, 2}, {1, 2, 3, 4})), m(Tensor::from<double>({2, 2}, {0.5, 0.5, 1, 0}));
  const Variable weight(Tensor::from<double>({2}, {2, -2}));
  const std::vector<double> y = ops::scale_rows_by_gate(tape, x, m, weight).value().to_vector<double>();
  EXPECT_EQ(y[0], 0.5);
  EXPECT_EQ(y[1], 1.0);
  EXPECT_DOUBLE_EQ(y[2], 3 / (1 + std::exp(-2.0)));
}

TEST(ScaleRowsByGate, TakesABf16Weight) {
  const Variable x(random_tensor<float>({3, 5}, 1)), m(random_tensor<float>({3, 4}, 2));
  const Tensor stored = random_tensor<float>({4}, 3).to(DType::bf16);
  Tape tape;
  const auto run = [&](const Tensor& weight) {
    return ops::scale_rows_by_gate(tape, x, m, Variable(weight)).value().to_vector<float>();
  };
  EXPECT_EQ(run(stored), run(stored.to(DType::f32)));
}

TEST(ScaleDocumentsByGate, GradientsAreRight) {
  const auto documents = [](bool one_pool) {
    if (one_pool) return ops::gated_by_one_pool(6, 4);
    return std::vector<kernels::GatedDocument>{{0, 1, 0, 1}, {1, 5, 1, 5}, {5, 6, 5, 6}};
  };
  for (const bool one_pool : {false, true})
    for (const int64_t regimes : {1, 4})
      for (const int64_t heads : {1, 3}) {
        const auto op = [&](Tape& tape, const std::vector<Variable>& in) {
          return ops::scale_documents_by_gate(tape, in[0], in[1], in[2], documents(one_pool));
        };
        GradientCheck(op, {random_tensor({6, 7}, 1), random_memberships(one_pool ? 4 : 6, regimes, 2, 2),
                           random_tensor({heads, regimes}, 3, 2)})
            .run();
      }
}

TEST(ScaleDocumentsByGate, EveryDocumentHasItsOwn) {
  const Batch batch = make_batch(2, 3, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {0, 0, 2, 0, 0, 0}, {1, 2});
  const std::vector<kernels::GatedDocument> documents = ops::gated_documents(batch);
  ASSERT_EQ(documents.size(), 3u);
  Tape tape;
  const Variable x(Tensor::from<double>({6, 1}, {1, 1, 1, 1, 1, 1}));
  const Variable m(Tensor::from<double>({6, 2}, {1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1}));
  const Variable weight(Tensor::from<double>({2, 2}, {2, 0, 0, -1}));
  const std::vector<double> y = ops::scale_documents_by_gate(tape, x, m, weight, documents).value().to_vector<double>();
  const auto sigmoid = [](double value) { return 1 / (1 + std::exp(-value)); };
  EXPECT_DOUBLE_EQ(y[0], (sigmoid(1) + sigmoid(-0.5)) / 2);
  EXPECT_EQ(y[1], y[0]);
  EXPECT_DOUBLE_EQ(y[2], (sigmoid(2) + sigmoid(0)) / 2);
  for (size_t t = 3; t < 6; ++t) EXPECT_DOUBLE_EQ(y[t], (sigmoid(0) + sigmoid(-1)) / 2);
}

/// Even tokens are sharp, odd ones flat, one has no target. Differences need neither sums of 1 nor very small
/// memberships, and no entropy is so near the floor that a step crosses it.
TEST(MembershipEntropyFloor, GradientsAreRight) {
  for (const int64_t regimes : {2, 4, 8})
    for (const double share : {0.0, 0.6, 1.0}) {
      const Tensor m = random_tensor({6, regimes}, 5, 0.01);
      for (int64_t i = 0; i < m.count(); ++i) {
        const int64_t t = i / regimes, r = i % regimes;
        m.data<double>()[i] += t % 2 == 1 ? 0.37 : r == t % regimes ? 0.95 : 0.05;
      }
      const auto op = [&](Tape& tape, const std::vector<Variable>& in) {
        return ops::membership_entropy_floor(tape, in[0], targets_of({0, 1, -1, 2, 7, 3}), share);
      };
      GradientCheck(op, {m}).run(3e-7);  // the step is not small beside 0.04
    }
}

TEST(MembershipEntropyFloor, SumsWhatValidTokensMiss) {
  Tape tape;
  const Variable m(Tensor::from<float>({4, 2}, {0.5, 0.5, 1, 0, 0, 1, 1, 0}), true);
  const Variable sum = ops::membership_entropy_floor(tape, m, targets_of({1, 2, -1, 3}), 0.5);
  EXPECT_DOUBLE_EQ(sum.value().item<double>(), 2 * 0.5 * std::log(2.0));
  tape.backward(sum, 0.25);
  const std::vector<float> gradient = m.grad().to_vector<float>();
  EXPECT_EQ(std::vector<float>(gradient.begin(), gradient.begin() + 2), std::vector<float>({0, 0}));
  EXPECT_EQ(gradient[2], 0.25f);
  EXPECT_TRUE(std::isfinite(gradient[3]));
  EXPECT_EQ(std::vector<float>(gradient.begin() + 4, gradient.begin() + 6), std::vector<float>({0, 0}));
}

/// A step against the gradient, through the softmax that made the memberships, raises the entropy of a sharp token.
TEST(MembershipEntropyFloor, PushesCollapsedMembershipsApart) {
  Tape tape;
  const Variable m(Tensor::from<double>({1, 3}, {0.97, 0.02, 0.01}), true);
  tape.backward(ops::membership_entropy_floor(tape, m, targets_of({0}), 0.8));
  const double *p = m.value().data<double>(), *g = m.grad().data<double>();
  const double inner = p[0] * g[0] + p[1] * g[1] + p[2] * g[2];
  EXPECT_GT(p[0] * (g[0] - inner), 0);  // the largest is lowered
  EXPECT_LT(p[1] * (g[1] - inner), 0);
  EXPECT_LT(p[2] * (g[2] - inner), 0);
}

TEST(MembershipStatistics, BalancedSharpMembershipsAreSaturatedNotCollapsed) {
  const Tensor m = Tensor::zeros({8, 4}, DType::f32);
  for (int64_t t = 0; t < 8; ++t) m.data<float>()[t * 4 + t % 4] = 1;
  const auto found = ops::membership_statistics(m, targets_of(std::vector<int32_t>(8, 0)));
  EXPECT_EQ(found.tokens, 8);
  EXPECT_EQ(found.saturated, 8);
  EXPECT_EQ(found.saturation(), 1);
  EXPECT_EQ(found.entropy, 0);
  EXPECT_EQ(found.collapse(), 0.25);
}

TEST(MembershipStatistics, FlatMembershipsAreNeither) {
  const Tensor m = random_memberships(50, 4, 1, 0);
  const auto found = ops::membership_statistics(m, targets_of(std::vector<int32_t>(50, 0)));
  EXPECT_EQ(found.saturation(), 0);
  EXPECT_NEAR(found.relative_entropy(), 1, 1e-14);
  EXPECT_EQ(found.collapse(), 0.25);
}

/// Centres far from all tokens but one: every token falls to it, which is how a prior dies.
TEST(MembershipStatistics, CollapseIsSeen) {
  const Tensor m = random_memberships(100, 4, 1, 1);
  const auto healthy = ops::membership_statistics(m, targets_of(std::vector<int32_t>(100, 0)));
  EXPECT_LT(healthy.collapse(), 0.35);
  EXPECT_EQ(healthy.saturated, 0);
  const Tensor z = random_tensor({100, 3}, 2), centres = random_tensor({4, 3}, 3),
               square = Tensor::empty({100, 4}, DType::f64);
  for (double& value : centres.rows(1, 4).span<double>()) value += 10;
  const Tensor log_sigma = Tensor::zeros({4}, DType::f64);
  kernels::memberships_forward<double>({}, m.data<double>(), square.data<double>(), z.data<double>(),
                                       centres.data<double>(), log_sigma.data<double>(), 100, 4, 3);
  const auto found = ops::membership_statistics(m, targets_of(std::vector<int32_t>(100, 0)));
  EXPECT_GT(found.collapse(), 0.99);
  EXPECT_EQ(found.saturated, 100);
  EXPECT_LT(found.relative_entropy(), 0.01);
}

TEST(MembershipStatistics, OnlyValidTokensCountAndPartsAdd) {
  const Tensor m = random_memberships(9, 3, 1, 4);
  const std::vector<int32_t> targets = {0, -1, 2, 3, -1, 5, 6, 7, -1};
  const auto whole = ops::membership_statistics(m, targets_of(targets));
  ops::MembershipStatistics sum;
  sum.add(ops::membership_statistics(m.rows(0, 4), targets_of({0, -1, 2, 3})));
  sum.add(ops::membership_statistics(m.rows(4, 9), targets_of({-1, 5, 6, 7, -1})));
  EXPECT_EQ(whole.tokens, 6);
  EXPECT_EQ(sum.tokens, 6);
  EXPECT_EQ(sum.saturated, whole.saturated);
  EXPECT_DOUBLE_EQ(sum.relative_entropy(), whole.relative_entropy());
  EXPECT_DOUBLE_EQ(sum.collapse(), whole.collapse());
  const auto none = ops::membership_statistics(m.rows(0, 1), targets_of({-1}));
  EXPECT_EQ(none.saturation() + none.relative_entropy() + none.collapse(), 0);
}

TEST(MembershipStatistics, NineTenthsIsNotSaturated) {
  const Tensor m = Tensor::from<float>({2, 2}, {0.9f, 0.1f, 0.08f, 0.92f});
  EXPECT_EQ(ops::membership_statistics(m, targets_of({0, 0})).saturated, 1);
}

TEST(MembershipGates, MistakesAreErrors) {
  Tape tape;
  const auto zeros = [](Shape shape) { return Variable(Tensor::zeros(shape, DType::f64)); };
  testing::expect_error(Fault::kInternal, {"scale_rows_by_gate: memberships", "[3, 4]", "[2, 5]"}, [&] {
    ops::scale_rows_by_gate(tape, zeros({2, 5}), zeros({3, 4}), zeros({4}));
  });
  testing::expect_error(Fault::kInternal, {"scale_rows_by_gate: weight", "[5]", "[4]"}, [&] {
    ops::scale_rows_by_gate(tape, zeros({2, 5}), zeros({2, 4}), zeros({5}));
  });
  testing::expect_error(Fault::kInternal, {"membership_entropy_floor: memberships", "[3, 4]", "[2]"}, [&] {
    ops::membership_entropy_floor(tape, zeros({3, 4}), targets_of({0, 0}), 0.5);
  });
  for (const double share : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    testing::expect_error(Fault::kInternal, {"membership_entropy_floor: share"}, [&] {
      ops::membership_entropy_floor(tape, zeros({2, 4}), targets_of({0, 0}), share);
    });
  testing::expect_error(Fault::kInternal, {"membership_statistics: memberships", "[2, 9]"}, [&] {
    ops::membership_statistics(Tensor::zeros({2, 9}, DType::f64), targets_of({0, 0}));
  });
  ops::MembershipStatistics three;
  three.add(ops::membership_statistics(Tensor::zeros({1, 3}, DType::f64), targets_of({0})));
  testing::expect_error(Fault::kInternal, {"3 and 2 regimes"}, [&] {
    three.add(ops::membership_statistics(Tensor::zeros({1, 2}, DType::f64), targets_of({0})));
  });
}

}  // namespace
}  // namespace longhaul
