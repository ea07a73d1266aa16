#include "core/ops/alignment.h"

#include <algorithm>
#include <cmath>

#include "kernels/rpa_basis.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::bytes_of;
using testing::GradientCheck;
using testing::random_tensor;

/// Rows of a softmax.
Tensor memberships_of(int64_t length, int64_t regimes, double sharpness = 2.0) {
  const Tensor result = random_tensor({length, regimes}, 1, sharpness);
  for (int64_t t = 0; t < length; ++t) {
    double* const row = result.data<double>() + t * regimes;
    double sum = 0;
    for (int64_t r = 0; r < regimes; ++r) sum += row[r] = std::exp(row[r]);
    for (int64_t r = 0; r < regimes; ++r) row[r] /= sum;
  }
  return result;
}

/// The published form: exponentials first, then sums.
std::vector<double> reference(const Tensor& mean, const Tensor& basis, const ops::AlignmentOptions& options) {
  const int64_t length = mean.size(0), regimes = mean.size(1), functions = basis.size(1);
  std::vector<double> p(static_cast<size_t>(regimes * functions));
  const auto at = [&](int64_t r, int64_t k) -> double& { return p[static_cast<size_t>(r * functions + k)]; };
  for (int64_t r = 0; r < regimes; ++r)
    for (int64_t k = 0; k < functions; ++k) {
      double score = 0;
      for (int64_t t = 0; t < length; ++t)
        score += mean.data<double>()[t * regimes + r] * basis.data<double>()[t * functions + k];
      at(r, k) = std::clamp(std::exp(score / options.temperature), 1e-9, 1e9);
    }
  for (int64_t n = 0; n < options.iterations; ++n) {
    for (int64_t r = 0; r < regimes; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < functions; ++k) sum += at(r, k);
      for (int64_t k = 0; k < functions; ++k) at(r, k) /= sum;
    }
    for (int64_t k = 0; k < functions; ++k) {
      double sum = 0;
      for (int64_t r = 0; r < regimes; ++r) sum += at(r, k);
      for (int64_t r = 0; r < regimes; ++r) at(r, k) /= sum;
    }
  }
  return p;
}

struct Case {
  int64_t length, regimes, functions;
  ops::AlignmentOptions options = {.detach = false};
};

/// At length 150 some scores lie beyond the clamp and some do not.
std::vector<Case> cases() {
  return {
      {1, 1, 1}, {7, 4, 4}, {12, 3, 5}, {9, 8, 2, {.temperature = 1.3, .iterations = 1, .detach = false}}, {150, 3, 3}};
}

TEST(Alignment, EqualsThePublishedForm) {
  for (const Case& c : cases())
    for (const bool detach : {false, true}) {
      ops::AlignmentOptions options = c.options;
      options.detach = detach;
      Tape tape;
      const Tensor mean = memberships_of(c.length, c.regimes),
                   basis = ops::rpa_basis(c.length, c.functions, DType::f64);
      const Variable found = ops::alignment(tape, Variable(mean, true), basis, options);
      EXPECT_EQ(found.requires_grad(), !detach);
      ASSERT_EQ(found.shape(), Shape({c.regimes, c.functions}));
      const std::vector<double> expected = reference(mean, basis, options);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.value().data<double>()[i], expected[i], 1e-12);
    }
}

TEST(Alignment, GradientsAreRight) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.length);
    const auto op = [&c](Tape& tape, const std::vector<Variable>& in) {
      return ops::alignment(tape, in[0], ops::rpa_basis(c.length, c.functions, DType::f64), c.options);
    };
    GradientCheck(op, {memberships_of(c.length, c.regimes)}).run();
  }
}

TEST(Alignment, LongRowsStayFinite) {
  Tape tape;
  const Tensor mean = memberships_of(4000, 4).to(DType::f32);
  const Variable found = ops::alignment(tape, Variable(mean), ops::rpa_basis(4000, 4, DType::f32));
  for (const float value : found.value().span<float>()) EXPECT_TRUE(value >= 0 && value <= 1) << value;
}

TEST(Alignment, BasisIsThatOfTheKernel) {
  std::vector<float> expected(10);
  kernels::rpa_basis<float>(kernels::Cpu{}, expected.data(), 5, 2);
  EXPECT_EQ(ops::rpa_basis(5, 2, DType::f32).to_vector<float>(), expected);
}

TEST(Alignment, MistakesAreErrors) {
  Tape tape;
  const auto constant = [](Shape shape) { return Variable(Tensor::zeros(shape, DType::f64)); };
  testing::expect_error(Fault::kInternal, {"alignment: ", "[6, 4]", "[5, 4]"}, [&] {
    ops::alignment(tape, constant({6, 4}), ops::rpa_basis(5, 4, DType::f64));
  });
  testing::expect_error(Fault::kInternal, {"f64"}, [&] {
    ops::alignment(tape, constant({6, 4}), ops::rpa_basis(6, 4, DType::f32));
  });
  testing::expect_error(Fault::kInternal, {"sinkhorn: ", "9 x 4"}, [&] {
    ops::alignment(tape, constant({6, 9}), ops::rpa_basis(6, 4, DType::f64));
  });
}

}  // namespace
}  // namespace longhaul
