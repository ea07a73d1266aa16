#include "core/ops/linear.h"

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::GradientCheck;
using testing::random_tensor;

TEST(Linear, ComputesByHand) {
  Tape tape;
  const Variable x(Tensor::from<double>({1, 2}, {1, 2})), w(Tensor::from<double>({3, 2}, {1, 0, 0, 1, 1, 1}));
  const Variable b(Tensor::from<double>({3}, {10, 20, 30}));
  EXPECT_EQ(ops::linear(tape, x, w, b).value().to_vector<double>(), (std::vector<double>{11, 22, 33}));
  EXPECT_EQ(ops::linear(tape, x, w).value().to_vector<double>(), (std::vector<double>{1, 2, 3}));
}

TEST(Linear, GradientsAreRight) {
  const auto op = [](Tape& tape, const std::vector<Variable>& in) {
    return ops::linear(tape, in[0], in[1], in.size() > 2 ? in[2] : Variable());
  };
  for (const auto& [rows, in, out] : {std::tuple{1, 1, 1}, std::tuple{5, 3, 7}, std::tuple{3, 17, 2}}) {
    const std::vector<Tensor> inputs = {random_tensor({rows, in}, 1), random_tensor({out, in}, 2),
                                        random_tensor({out}, 3)};
    GradientCheck(op, inputs).run();
    GradientCheck(op, {inputs[0], inputs[1]}).run();
  }
}

TEST(Linear, WeightUsedTwiceSumsItsGradients) {
  const auto op = [](Tape& tape, const std::vector<Variable>& in) {
    return ops::linear(tape, ops::linear(tape, in[0], in[1], in[2]), in[1], in[2]);
  };
  GradientCheck(op, {random_tensor({3, 4}, 1), random_tensor({4, 4}, 2), random_tensor({4}, 3)}).run();
}

TEST(Linear, Bf16WeightsActAsTheirFloatValues) {
  const Tensor w = random_tensor<float>({5, 3}, 1).to(DType::bf16), b = random_tensor<float>({5}, 2).to(DType::bf16);
  const Tensor x = random_tensor<float>({4, 3}, 3), seed = random_tensor<float>({4, 5}, 4);
  std::vector<std::vector<float>> gradients[2];
  for (const bool stored_as_bf16 : {true, false}) {
    Tape tape;
    const Variable input(x, true), weight(stored_as_bf16 ? w : w.to(DType::f32), true);
    const Variable bias(stored_as_bf16 ? b : b.to(DType::f32), true);
    const Variable y = ops::linear(tape, input, weight, bias);
    tape.backward_from(y, seed);
    gradients[stored_as_bf16] = {y.value().to_vector<float>(), input.grad().to_vector<float>(),
                                 weight.grad().to_vector<float>(), bias.grad().to_vector<float>()};
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST(Linear, DecodingGivesARowTheBitsItHasAmongAFewOthers) {
  const Tensor x = random_tensor<float>({40, 50}, 1);
  const Variable weight(random_tensor<float>({9, 50}, 2));
  const auto product = [&](int64_t begin, int64_t end, Tape::Mode mode) {
    Tape tape(mode);
    return ops::linear(tape, Variable(x.rows(begin, end)), weight).value();
  };
  const Tensor recorded = product(0, 40, Tape::Mode::record);
  for (const int64_t rows : {1, 2, 16, 17, 40}) {
    const Tensor decoded = product(0, rows, Tape::Mode::decode);
    for (int64_t i = 0; i < decoded.count(); ++i)
      EXPECT_NEAR(decoded.data<float>()[i], recorded.data<float>()[i], 1e-5) << rows;
  }
  EXPECT_EQ(product(3, 4, Tape::Mode::decode).to_vector<float>(),
            product(0, 16, Tape::Mode::decode).rows(3, 4).to_vector<float>());
}

TEST(Linear, NoRowsAreHarmless) {
  Tape tape;
  const Variable x(Tensor::zeros({0, 3}, DType::f64), true), w(random_tensor({2, 3}, 1), true);
  const Variable y = ops::linear(tape, x, w);
  EXPECT_EQ(y.shape(), (Shape{0, 2}));
  tape.backward_from(y, Tensor::zeros({0, 2}, DType::f64));
  EXPECT_EQ(w.grad().to_vector<double>(), std::vector<double>(6, 0.0));
}

TEST(Linear, ShapesThatDisagreeAreNamed) {
  Tape tape;
  const auto constant = [](Shape shape, DType type = DType::f64) { return Variable(Tensor::zeros(shape, type)); };
  testing::expect_error(Fault::kInternal, {"linear: ", "[2, 3]", "[4, 5]"}, [&] {
    ops::linear(tape, constant({2, 3}), constant({4, 5}));
  });
  testing::expect_error(Fault::kInternal, {"linear: ", "[3]", "[4, 3]"}, [&] {
    ops::linear(tape, constant({2, 3}), constant({4, 3}), constant({3}));
  });
  testing::expect_error(Fault::kInternal, {"linear: ", "[6]"}, [&] {
    ops::linear(tape, constant({6}), constant({4, 3}));
  });
  testing::expect_error(Fault::kInternal, {"linear: ", "bf16", "f64"}, [&] {
    ops::linear(tape, constant({2, 3}), constant({4, 3}, DType::bf16));
  });
}

}  // namespace
}  // namespace longhaul
