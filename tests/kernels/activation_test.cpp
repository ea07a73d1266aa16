#include "kernels/activation.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class ActivationTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ActivationTest, ElementTypes);

double gelu_tanh(double u) { return 0.5 * u * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u))); }
double silu(double g) { return g / (1 + std::exp(-g)); }

template <typename T>
std::vector<T> gelu(const std::vector<T>& x, const T* bias, int64_t rows, int64_t columns) {
  std::vector<T> y(x.size(), T(NAN));
  bias_gelu_forward<T>(Cpu{}, y.data(), x.data(), bias, rows, columns);
  return y;
}

TYPED_TEST(ActivationTest, GeluMatchesTheDefinition) {
  for (int64_t columns : {1, 2, 3, 63, 64, 65, 127}) {
    auto x = random_values<TypeParam>(3 * columns, 1);
    for (auto& value : x) value *= 6;
    const auto bias = random_values<TypeParam>(columns, 2);
    std::vector<double> with_bias, without;
    for (size_t i = 0; i < x.size(); ++i) {
      with_bias.push_back(gelu_tanh(double(x[i]) + double(bias[i % static_cast<size_t>(columns)])));
      without.push_back(gelu_tanh(double(x[i])));
    }
    EXPECT_LT(relative_error(gelu(x, bias.data(), 3, columns), with_bias), tolerance<TypeParam>()) << columns;
    EXPECT_LT(relative_error(gelu<TypeParam>(x, nullptr, 3, columns), without), tolerance<TypeParam>()) << columns;
  }
}

TYPED_TEST(ActivationTest, GeluFarFromZero) {
  const std::vector<TypeParam> x = {-1e30, -100, -20, 20, 100, 1e30}, dy(6, 1);
  const auto y = gelu<TypeParam>(x, nullptr, 1, 6);
  std::vector<TypeParam> dx(6);
  bias_gelu_backward<TypeParam>(Cpu{}, dx.data(), dy.data(), x.data(), nullptr, 1, 6);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(y[i], 0, 1e-30);
    EXPECT_NEAR(dx[i], 0, 1e-30);
    EXPECT_EQ(y[i + 3], x[i + 3]);
    EXPECT_EQ(dx[i + 3], 1);
  }
}

TEST(ActivationGradientTest, Gelu) {
  constexpr int64_t kRows = 3, kColumns = 7;
  auto x = random_values<double>(kRows * kColumns, 1);
  for (double& value : x) value *= 4;
  const auto bias = random_values<double>(kColumns, 2), dy = random_values<double>(kRows * kColumns, 3);
  for (const double* shift : {bias.data(), static_cast<const double*>(nullptr)}) {
    const auto numeric = numeric_gradient(
        x, [&](const std::vector<double>& moved) { return dot(dy, gelu<double>(moved, shift, kRows, kColumns)); });
    std::vector<double> dx(x.size());
    bias_gelu_backward<double>(Cpu{}, dx.data(), dy.data(), x.data(), shift, kRows, kColumns);
    EXPECT_LT(relative_error(dx, numeric), 1e-9);
    std::vector<double> in_place = dy;
    bias_gelu_backward<double>(Cpu{}, in_place.data(), in_place.data(), x.data(), shift, kRows, kColumns);
    EXPECT_TRUE(same_bits(in_place, dx));
  }
}

template <typename T>
std::vector<T> swiglu(const std::vector<T>& gate_up, int64_t rows, int64_t columns) {
  std::vector<T> y(static_cast<size_t>(rows * columns), T(NAN));
  swiglu_forward<T>(Cpu{}, y.data(), gate_up.data(), rows, columns);
  return y;
}

TYPED_TEST(ActivationTest, SwigluMatchesTheDefinition) {
  for (int64_t columns : {1, 2, 3, 63, 64, 65, 127}) {
    auto gate_up = random_values<TypeParam>(2 * 2 * columns, 1);
    for (auto& value : gate_up) value *= 8;
    std::vector<double> expected;
    for (int64_t row = 0; row < 2; ++row)
      for (int64_t c = 0; c < columns; ++c)
        expected.push_back(silu(double(gate_up[static_cast<size_t>(row * 2 * columns + c)])) *
                           double(gate_up[static_cast<size_t>(row * 2 * columns + columns + c)]));
    EXPECT_LT(relative_error(swiglu(gate_up, 2, columns), expected), tolerance<TypeParam>()) << columns;
  }
}

TEST(ActivationGradientTest, Swiglu) {
  for (int64_t columns : {1, 5, 9}) {
    auto gate_up = random_values<double>(3 * 2 * columns, 1);
    for (double& value : gate_up) value *= 4;
    const auto dy = random_values<double>(3 * columns, 2);
    const auto numeric = numeric_gradient(
        gate_up, [&](const std::vector<double>& moved) { return dot(dy, swiglu<double>(moved, 3, columns)); });
    std::vector<double> gradient(gate_up.size());
    swiglu_backward<double>(Cpu{}, gradient.data(), dy.data(), gate_up.data(), 3, columns);
    EXPECT_LT(relative_error(gradient, numeric), 1e-9);
    std::vector<double> in_place = gate_up;
    swiglu_backward<double>(Cpu{}, in_place.data(), dy.data(), in_place.data(), 3, columns);
    EXPECT_TRUE(same_bits(in_place, gradient));
  }
}

TYPED_TEST(ActivationTest, SameBitsOnAnyThreadsAndInAnyRow) {
  constexpr int64_t kRows = 700, kColumns = 77;  // above the size from which a team is used
  const auto x = random_values<TypeParam>(kRows * kColumns, 1), bias = random_values<TypeParam>(kColumns, 2);
  expect_same_on_any_threads([&] { return gelu(x, bias.data(), kRows, kColumns); });
  const auto all = gelu(x, bias.data(), kRows, kColumns);
  for (int64_t row : {0, 1, 350, 699}) {
    const std::vector<TypeParam> one(x.begin() + row * kColumns, x.begin() + (row + 1) * kColumns);
    const std::vector<TypeParam> expected(all.begin() + row * kColumns, all.begin() + (row + 1) * kColumns);
    EXPECT_TRUE(same_bits(gelu(one, bias.data(), 1, kColumns), expected)) << row;
  }
}

}  // namespace
}  // namespace longhaul::kernels
