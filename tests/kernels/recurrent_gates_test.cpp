#include "kernels/recurrent_gates.h"

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

TEST(SoftplusGate, GradientsClampAndLargeArguments) {
  const std::vector<double> x = random_values<double>(6 * 5, 1), bias = random_values<double>(3, 2);
  const std::vector<double> dy = random_values<double>(6 * 3, 3);
  const auto forward = [&](const std::vector<double>& x_in, const std::vector<double>& bias_in, double low,
                           double high) {
    std::vector<double> y(18, NAN);
    softplus_gate_forward<double>(Cpu{}, y.data(), x_in.data(), 5, bias_in.data(), 6, 3, low, high);
    return y;
  };
  std::vector<double> dx(x.size(), 0.0), dbias(3, NAN);
  softplus_gate_backward<double>(Cpu{}, dx.data(), 5, dbias.data(), false, dy.data(), x.data(), 5, bias.data(), 6, 3, 0,
                                 1e9);
  const auto by_x = [&](const std::vector<double>& v) { return dot(forward(v, bias, 0, 1e9), dy); };
  const auto by_bias = [&](const std::vector<double>& v) { return dot(forward(x, v, 0, 1e9), dy); };
  EXPECT_LT(relative_error(dx, numeric_gradient(x, by_x)), 1e-7);
  EXPECT_LT(relative_error(dbias, numeric_gradient(bias, by_bias)), 1e-7);

  const std::vector<double> extreme = {-800, 0, 800}, none(3, 0.0);
  std::vector<double> y(3), slope(3), sum(3);
  softplus_gate_forward<double>(Cpu{}, y.data(), extreme.data(), 3, none.data(), 1, 3, 1e-3, 100);
  EXPECT_EQ(y, (std::vector<double>{1e-3, std::log(2.0), 100}));
  softplus_gate_backward<double>(Cpu{}, slope.data(), 3, sum.data(), false, std::vector<double>(3, 1.0).data(),
                                 extreme.data(), 3, none.data(), 1, 3, 1e-3, 100);
  EXPECT_EQ(slope, (std::vector<double>{0, 0.5, 0}));
}

TEST(DeltaGates, Gradients) {
  const std::vector<double> ab = random_values<double>(6 * 4, 1), a_log = random_values<double>(2, 2);
  const std::vector<double> bias = random_values<double>(2, 3), weights = random_values<double>(24, 4);
  // Columns of ab: a, a, b, b. The loss weighs log_alpha and beta.
  const auto loss = [&](const std::vector<double>& ab_in, const std::vector<double>& a_log_in,
                        const std::vector<double>& bias_in) {
    std::vector<double> out(24, NAN);
    delta_gates_forward<double>(Cpu{}, out.data(), out.data() + 12, ab_in.data(), ab_in.data() + 2, 4, a_log_in.data(),
                                bias_in.data(), 6, 2);
    return dot(out, weights);
  };
  std::vector<double> dab(24, NAN), da_log(2, NAN), dbias(2, NAN);
  delta_gates_backward<double>(Cpu{}, dab.data(), dab.data() + 2, da_log.data(), dbias.data(), false, weights.data(),
                               weights.data() + 12, ab.data(), ab.data() + 2, 4, a_log.data(), bias.data(), 6, 2);
  EXPECT_LT(relative_error(dab, numeric_gradient(ab, [&](const auto& v) { return loss(v, a_log, bias); })), 1e-7);
  EXPECT_LT(relative_error(da_log, numeric_gradient(a_log, [&](const auto& v) { return loss(ab, v, bias); })), 1e-7);
  EXPECT_LT(relative_error(dbias, numeric_gradient(bias, [&](const auto& v) { return loss(ab, a_log, v); })), 1e-7);
}

}  // namespace
}  // namespace longhaul::kernels
