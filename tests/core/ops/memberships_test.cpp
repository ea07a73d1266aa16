#include "core/ops/memberships.h"

#include <algorithm>
#include <cmath>

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"
#include "tests/core/ops/attention_testing.h"

namespace longhaul {
namespace {

using testing::batch_of;
using testing::bytes_of;
using testing::GradientCheck;
using testing::random_tensor;

Variable memberships_op(Tape& tape, const std::vector<Variable>& in) {
  return ops::memberships(tape, in[0], in[1], in[2]);
}

/// z, centres and log_sigma of `regimes` regimes.
std::vector<Tensor> inputs_of(int64_t tokens, int64_t columns, int64_t regimes, double scale = 1.0) {
  return {random_tensor({tokens, columns}, 1, scale), random_tensor({regimes, columns}, 2, scale),
          random_tensor({regimes}, 3, 0.5)};
}

std::vector<std::vector<Tensor>> cases() {
  std::vector<std::vector<Tensor>> all = {inputs_of(1, 1, 1), inputs_of(6, 5, 4), inputs_of(3, 17, 8),
                                          inputs_of(5, 7, 3, 3.0)};  // the last: exponents beyond -30
  all.push_back(inputs_of(4, 3, 4));
  all.back()[2] = Tensor::from<double>({4}, {0.2, 3.6, -4.0, -0.3});  // precisions beyond both limits
  return all;
}

TEST(Memberships, EqualTheDefinition) {
  for (const std::vector<Tensor>& in : cases()) {
    const int64_t tokens = in[0].size(0), columns = in[0].size(1), regimes = in[1].size(0);
    Tape tape;
    const Tensor found = ops::memberships(tape, Variable(in[0]), Variable(in[1]), Variable(in[2])).value();
    ASSERT_EQ(found.shape(), Shape({tokens, regimes}));
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<double> weights;
      double sum = 0;
      for (int64_t r = 0; r < regimes; ++r) {
        double square = 0;
        for (int64_t c = 0; c < columns; ++c)
          square += std::pow(in[0].data<double>()[t * columns + c] - in[1].data<double>()[r * columns + c], 2);
        const double precision = std::clamp(std::exp(-2 * in[2].data<double>()[r]), 1e-3, 1e3);
        weights.push_back(std::exp(std::clamp(-square / 2 * precision, -30.0, 30.0)));
        sum += weights.back();
      }
      for (int64_t r = 0; r < regimes; ++r)
        EXPECT_NEAR(found.data<double>()[t * regimes + r], weights[static_cast<size_t>(r)] / sum, 1e-13);
    }
  }
}

TEST(Memberships, GradientsAreRight) {
  for (const std::vector<Tensor>& in : cases()) {
    SCOPED_TRACE(in[0].shape().text());
    GradientCheck(memberships_op, in).run();
  }
}

TEST(Memberships, OneParameterGradientPresentTheOtherNot) {
  const std::vector<Tensor> in = inputs_of(3, 4, 2);
  const Tensor seed = random_tensor({3, 2}, 4), present = random_tensor({2}, 5);
  const auto gradients = [&](bool with_present) {
    Tape tape;
    const Variable z(in[0], true), centres(in[1], true), log_sigma(in[2], true);
    if (with_present) log_sigma.give_gradient(present.clone());
    tape.backward_from(ops::memberships(tape, z, centres, log_sigma), seed);
    return std::pair(centres.grad(), log_sigma.grad());
  };
  const auto [dcentres, dlog_sigma] = gradients(false);
  const auto [same, added] = gradients(true);
  EXPECT_EQ(same.to_vector<double>(), dcentres.to_vector<double>());
  for (int64_t r = 0; r < 2; ++r)
    EXPECT_DOUBLE_EQ(added.data<double>()[r], present.data<double>()[r] + dlog_sigma.data<double>()[r]);
}

TEST(Memberships, Bf16ParametersActAsTheirFloatValues) {
  const Tensor z = random_tensor<float>({3, 4}, 1), seed = random_tensor<float>({3, 2}, 2);
  const Tensor centres = random_tensor<float>({2, 4}, 3).to(DType::bf16);
  const Tensor log_sigma = random_tensor<float>({2}, 4).to(DType::bf16);
  const auto everything = [&](const Tensor& c_value, const Tensor& s_value) {
    Tape tape;
    const Variable x(z, true), c(c_value, true), s(s_value, true);
    const Variable y = ops::memberships(tape, x, c, s);
    tape.backward_from(y, seed);
    return std::vector{bytes_of(y.value()), bytes_of(x.grad()), bytes_of(c.grad()), bytes_of(s.grad())};
  };
  EXPECT_EQ(everything(centres, log_sigma), everything(centres.to(DType::f32), log_sigma.to(DType::f32)));
}

TEST(Memberships, MistakesAreErrors) {
  Tape tape;
  const auto constant = [](Shape shape) { return Variable(Tensor::zeros(shape, DType::f64)); };
  testing::expect_error(Fault::kInternal, {"memberships: centres", "[2, 5]", "4]"}, [&] {
    ops::memberships(tape, constant({3, 4}), constant({2, 5}), constant({2}));
  });
  testing::expect_error(Fault::kInternal, {"memberships: log_sigma", "[3]", "[2, 4]"}, [&] {
    ops::memberships(tape, constant({3, 4}), constant({2, 4}), constant({3}));
  });
  testing::expect_error(Fault::kInternal, {"memberships: 9 regimes"}, [&] {
    ops::memberships(tape, constant({3, 4}), constant({9, 4}), constant({9}));
  });
}

TEST(BatchMean, ComputesByHand) {
  Tape tape;
  const Variable x(Tensor::from<double>({4, 2}, {1, 2, 3, 4, 5, 7, 9, 11}));
  EXPECT_EQ(ops::batch_mean(tape, x, batch_of(2, 2)).value().to_vector<double>(),
            std::vector<double>({3, 4.5, 6, 7.5}));
  EXPECT_EQ(ops::batch_mean(tape, x, batch_of(1, 4)).value().to_vector<double>(), x.value().to_vector<double>());
}

TEST(BatchMean, GradientsAreRight) {
  for (const auto& [rows, length, columns] : {std::tuple{1, 1, 1}, std::tuple{3, 5, 4}, std::tuple{1, 6, 2}}) {
    const auto op = [batch = batch_of(rows, length)](Tape& tape, const std::vector<Variable>& in) {
      return ops::batch_mean(tape, in[0], batch);
    };
    GradientCheck(op, {random_tensor({rows * length, columns}, 1)}).run();
  }
}

TEST(BatchMean, MistakesAreErrors) {
  Tape tape;
  testing::expect_error(Fault::kInternal, {"batch_mean: ", "[5, 2]", "6 tokens"}, [&] {
    ops::batch_mean(tape, Variable(Tensor::zeros({5, 2}, DType::f64)), batch_of(2, 3));
  });
}

}  // namespace
}  // namespace longhaul
