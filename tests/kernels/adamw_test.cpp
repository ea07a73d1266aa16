#include "kernels/adamw.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class AdamwTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AdamwTest, ElementTypes);

AdamWStep step_number(int t) {
  return {.learning_rate = 1e-2,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .weight_decay = 0.1,
          .gradient_scale = 0.5,
          .bias_correction1 = 1 - std::pow(0.9, t),
          .bias_correction2 = 1 - std::pow(0.95, t)};
}

TYPED_TEST(AdamwTest, ThreeStepsMatchTheDefinition) {
  for (int64_t count : {1, 2, 3, 63, 64, 65, 127}) {
    auto p = random_values<TypeParam>(count, 1);
    std::vector<TypeParam> m(p.size(), 0), v(p.size(), 0);
    std::vector<double> p_exact(p.begin(), p.end()), m_exact(p.size(), 0), v_exact(p.size(), 0);
    for (int t = 1; t <= 3; ++t) {
      const auto gradient = random_values<TypeParam>(count, static_cast<uint32_t>(1 + t));
      const AdamWStep step = step_number(t);
      adamw_update<TypeParam>(Cpu{}, p.data(), m.data(), v.data(), gradient.data(), count, step);
      for (size_t i = 0; i < p.size(); ++i) {
        const double g = double(gradient[i]) * step.gradient_scale;
        m_exact[i] = step.beta1 * m_exact[i] + (1 - step.beta1) * g;
        v_exact[i] = step.beta2 * v_exact[i] + (1 - step.beta2) * g * g;
        const double m_hat = m_exact[i] / step.bias_correction1, v_hat = v_exact[i] / step.bias_correction2;
        p_exact[i] -= step.learning_rate * (m_hat / (std::sqrt(v_hat) + step.epsilon) + step.weight_decay * p_exact[i]);
      }
    }
    EXPECT_LT(relative_error(p, p_exact), tolerance<TypeParam>());
    EXPECT_LT(relative_error(m, m_exact), tolerance<TypeParam>());
    EXPECT_LT(relative_error(v, v_exact), tolerance<TypeParam>());
  }
}

TYPED_TEST(AdamwTest, ZeroGradientWithoutDecayMovesNothing) {
  auto p = random_values<TypeParam>(33, 1);
  const auto before = p;
  std::vector<TypeParam> m(33, 0), v(33, 0), gradient(33, 0);
  AdamWStep step = step_number(1);
  step.weight_decay = 0;
  adamw_update<TypeParam>(Cpu{}, p.data(), m.data(), v.data(), gradient.data(), 33, step);
  EXPECT_TRUE(same_bits(p, before));
}

TYPED_TEST(AdamwTest, ZeroGradientWithDecayShrinks) {
  std::vector<TypeParam> p = {1, -2}, m(2, 0), v(2, 0), gradient(2, 0);
  AdamWStep step = step_number(1);
  step.learning_rate = 1;
  adamw_update<TypeParam>(Cpu{}, p.data(), m.data(), v.data(), gradient.data(), 2, step);
  EXPECT_EQ(p, (std::vector<TypeParam>{TypeParam(0.9), TypeParam(-2) * TypeParam(0.9)}));
}

TYPED_TEST(AdamwTest, SameBitsOnAnyThreadsAndCutAnywhere) {
  constexpr int64_t kCount = 70001;
  const auto start = random_values<TypeParam>(kCount, 1), gradient = random_values<TypeParam>(kCount, 2);
  const auto run = [&](std::vector<int64_t> cuts) {
    auto p = start;
    std::vector<TypeParam> m(p.size(), TypeParam(0.1)), v(p.size(), TypeParam(0.01));
    cuts.push_back(kCount);
    int64_t from = 0;
    for (int64_t to : cuts) {
      adamw_update<TypeParam>(Cpu{}, p.data() + from, m.data() + from, v.data() + from, gradient.data() + from,
                              to - from, step_number(3));
      from = to;
    }
    p.insert(p.end(), m.begin(), m.end());
    p.insert(p.end(), v.begin(), v.end());
    return p;
  };
  expect_same_on_any_threads([&] { return run({}); });
  EXPECT_TRUE(same_bits(run({}), run({1, 2, 37, 65536})));
}

}  // namespace
}  // namespace longhaul::kernels
