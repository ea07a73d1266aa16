#include "core/ops/activation.h"

#include <cmath>

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::GradientCheck;
using testing::random_tensor;

TEST(BiasGelu, MatchesTheFormula) {
  Tape tape;
  const Variable x(Tensor::from<double>({1, 3}, {-1.0, 0.0, 2.0})), b(Tensor::from<double>({3}, {0.5, 0.0, 1.0}));
  const std::vector<double> y = ops::bias_gelu(tape, x, b).value().to_vector<double>();
  const auto gelu = [](double u) {
    return 0.5 * u * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)));
  };
  EXPECT_NEAR(y[0], gelu(-0.5), 1e-14);
  EXPECT_EQ(y[1], 0.0);
  EXPECT_NEAR(y[2], gelu(3.0), 1e-14);
}

TEST(BiasGelu, GradientsAreRight) {
  const auto op = [](Tape& tape, const std::vector<Variable>& in) {
    return ops::bias_gelu(tape, in[0], in.size() > 1 ? in[1] : Variable());
  };
  for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{5, 7}, std::pair{2, 19}}) {
    GradientCheck(op, {random_tensor({rows, columns}, 1, 4.0), random_tensor({columns}, 2)}).run();
    GradientCheck(op, {random_tensor({rows, columns}, 1, 4.0)}).run();
  }
}

TEST(Swiglu, MatchesTheFormula) {
  Tape tape;
  const Variable x(Tensor::from<double>({1, 4}, {0.0, 1.0, 5.0, 3.0}));
  const std::vector<double> y = ops::swiglu(tape, x).value().to_vector<double>();
  EXPECT_EQ(y[0], 0.0);
  EXPECT_NEAR(y[1], 3.0 / (1 + std::exp(-1.0)), 1e-14);
}

TEST(Swiglu, GradientsAreRight) {
  const auto op = [](Tape& tape, const std::vector<Variable>& in) { return ops::swiglu(tape, in[0]); };
  for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{5, 7}, std::pair{2, 19}}) {
    GradientCheck(op, {random_tensor({rows, 2 * columns}, 1, 4.0)}).run();
  }
}

TEST(Activations, ShapesThatDisagreeAreNamed) {
  Tape tape;
  const auto constant = [](Shape shape) { return Variable(Tensor::zeros(shape, DType::f32)); };
  testing::expect_error(Fault::kInternal, {"bias_gelu: ", "[4]", "[2, 3]"}, [&] {
    ops::bias_gelu(tape, constant({2, 3}), constant({4}));
  });
  testing::expect_error(Fault::kInternal, {"swiglu: ", "[2, 3]"}, [&] { ops::swiglu(tape, constant({2, 3})); });
}

}  // namespace
}  // namespace longhaul
