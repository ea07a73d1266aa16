#include "core/optim/adamw.h"

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

TEST(AdamWStep, IsAFunctionOfTheStepNumber) {
  const AdamWOptions options{0.9, 0.95, 1e-8, 0.1};
  const kernels::AdamWStep first = adamw_step(options, 1, 3e-4, 0.5, WeightDecay::yes);
  EXPECT_NEAR(first.bias_correction1, 0.1, 1e-15);
  EXPECT_NEAR(first.bias_correction2, 0.05, 1e-15);
  EXPECT_EQ(first.learning_rate, 3e-4);
  EXPECT_EQ(first.gradient_scale, 0.5);
  EXPECT_EQ(first.weight_decay, 0.1);
  const kernels::AdamWStep third = adamw_step(options, 3, 3e-4, 0.5, WeightDecay::no);
  EXPECT_NEAR(third.bias_correction1, 1 - 0.729, 1e-15);
  EXPECT_EQ(third.weight_decay, 0.0);
}

TEST(AdamWStep, CountsFromOne) {
  testing::expect_error(Fault::kInternal, {"step 0"}, [] { adamw_step({}, 0, 1, 1, WeightDecay::no); });
}

}  // namespace
}  // namespace longhaul
