#include "core/ops/add.h"

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::random_tensor;

TEST(Add, GradientsAreRight) {
  const auto op = [](Tape& tape, const std::vector<Variable>& in) { return ops::add(tape, in[0], in[1]); };
  testing::GradientCheck(op, {random_tensor({3, 5}, 1), random_tensor({3, 5}, 2)}).run();
}

TEST(Add, BothInputsShareTheGradientMemory) {
  Tape tape;
  const Variable a(random_tensor({3, 5}, 1), true), b(random_tensor({3, 5}, 2), true);
  tape.backward_from(ops::add(tape, a, b), random_tensor({3, 5}, 3));
  EXPECT_EQ(a.grad().raw(), b.grad().raw());
}

TEST(Mean, IsHalfTheSumAndItsGradientsAreRight) {
  const auto op = [](Tape& tape, const std::vector<Variable>& in) { return ops::mean(tape, in[0], in[1]); };
  testing::GradientCheck(op, {random_tensor({3, 5}, 1), random_tensor({3, 5}, 2)}).run();
  Tape tape;
  const Variable a(Tensor::from<double>({1, 2}, {1, -4})), b(Tensor::from<double>({1, 2}, {3, 2}));
  EXPECT_EQ(ops::mean(tape, a, b).value().to_vector<double>(), (std::vector<double>{2, -1}));
}

TEST(Add, DifferentShapesAreNamed) {
  Tape tape;
  testing::expect_error(Fault::kInternal, {"add: ", "[3, 5]", "[5, 3]"}, [&] {
    ops::add(tape, Variable(Tensor::zeros({3, 5}, DType::f32)), Variable(Tensor::zeros({5, 3}, DType::f32)));
  });
}

}  // namespace
}  // namespace longhaul
