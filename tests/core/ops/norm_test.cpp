#include "core/ops/layer_norm.h"
#include "core/ops/rms_norm.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::GradientCheck;
using testing::random_tensor;

Variable layer_norm_op(Tape& tape, const std::vector<Variable>& in) {
  return ops::layer_norm(tape, in[0], in[1], in[2], 1e-5);
}
Variable rms_norm_op(Tape& tape, const std::vector<Variable>& in) { return ops::rms_norm(tape, in[0], in[1], 1e-6); }

TEST(LayerNorm, ComputesByHand) {
  Tape tape;
  const Variable x(Tensor::from<double>({1, 4}, {1, 1, 3, 3})), w(Tensor::from<double>({4}, {1, 2, 1, 2}));
  const Variable b(Tensor::from<double>({4}, {0, 0, 10, 10}));
  EXPECT_EQ(ops::layer_norm(tape, x, w, b, 0.0).value().to_vector<double>(), (std::vector<double>{-1, -2, 11, 12}));
}

TEST(RmsNorm, ComputesByHand) {
  Tape tape;
  const Variable x(Tensor::from<double>({1, 4}, {1, -1, 7, 7})), w(Tensor::from<double>({4}, {5, 10, 5, 10}));
  const std::vector<double> expected = {1, -2, 7, 14},
                            found = ops::rms_norm(tape, x, w, 0.0).value().to_vector<double>();
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], expected[i], 1e-14);
}

TEST(LayerNorm, GradientsAreRight) {
  for (const auto& [rows, columns] : {std::pair{1, 2}, std::pair{5, 7}, std::pair{3, 33}}) {
    GradientCheck(layer_norm_op,
                  {random_tensor({rows, columns}, 1), random_tensor({columns}, 2), random_tensor({columns}, 3)})
        .run();
  }
}

TEST(RmsNorm, GradientsAreRight) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{5, 7}, std::pair{3, 33}}) {
    GradientCheck(rms_norm_op, {random_tensor({rows, columns}, 1), random_tensor({columns}, 2)}).run();
  }
}

// The kernel adds to both parameter gradients or to none; here only one of them holds something.
TEST(LayerNorm, OneParameterGradientPresentTheOtherNot) {
  for (const int present : {1, 2}) {
    const testing::NanMemory nan;
    Tape tape, reference;
    const Tensor x = random_tensor({4, 6}, 1), seed = random_tensor({4, 6}, 5), prior = random_tensor({6}, 6);
    const std::vector<Variable> in = {Variable(x, true), Variable(random_tensor({6}, 2), true),
                                      Variable(random_tensor({6}, 3), true)};
    const std::vector<Variable> fresh = {Variable(x, true), Variable(in[1].value(), true),
                                         Variable(in[2].value(), true)};
    in[static_cast<size_t>(present)].give_gradient(prior);
    tape.backward_from(layer_norm_op(tape, in), seed);
    reference.backward_from(layer_norm_op(reference, fresh), seed);
    for (int parameter : {1, 2}) {
      for (int64_t i = 0; i < 6; ++i) {
        const double expected = fresh[static_cast<size_t>(parameter)].grad().data<double>()[i] +
                                (parameter == present ? prior.data<double>()[i] : 0.0);
        EXPECT_NEAR(in[static_cast<size_t>(parameter)].grad().data<double>()[i], expected, 1e-12);
      }
    }
  }
}

TEST(Norms, Bf16ParametersActAsTheirFloatValues) {
  Tape tape;
  const Tensor w = random_tensor<float>({5}, 1).to(DType::bf16), b = random_tensor<float>({5}, 2).to(DType::bf16);
  const Variable x(random_tensor<float>({3, 5}, 3));
  const Variable wide_w(w.to(DType::f32)), wide_b(b.to(DType::f32));
  EXPECT_EQ(ops::layer_norm(tape, x, Variable(w, true), Variable(b, true), 1e-5).value().to_vector<float>(),
            ops::layer_norm(tape, x, wide_w, wide_b, 1e-5).value().to_vector<float>());
  const Variable gain(w, true);
  const Variable y = ops::rms_norm(tape, x, gain, 1e-5);
  EXPECT_EQ(y.value().to_vector<float>(), ops::rms_norm(tape, x, wide_w, 1e-5).value().to_vector<float>());
  tape.backward_from(y, random_tensor<float>({3, 5}, 4));
  EXPECT_EQ(gain.grad().dtype(), DType::f32);
}

TEST(Norms, ShapesThatDisagreeAreNamed) {
  Tape tape;
  const auto constant = [](Shape shape) { return Variable(Tensor::zeros(shape, DType::f32)); };
  testing::expect_error(Fault::kInternal, {"layer_norm: ", "[4]", "[2, 3]"}, [&] {
    ops::layer_norm(tape, constant({2, 3}), constant({4}), constant({3}), 1e-5);
  });
  testing::expect_error(Fault::kInternal, {"layer_norm: bias", "[4]"}, [&] {
    ops::layer_norm(tape, constant({2, 3}), constant({3}), constant({4}), 1e-5);
  });
  testing::expect_error(Fault::kInternal, {"rms_norm: ", "[4]", "[2, 3]"}, [&] {
    ops::rms_norm(tape, constant({2, 3}), constant({4}), 1e-5);
  });
}

}  // namespace
}  // namespace longhaul
