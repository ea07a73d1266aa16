#include "core/autograd/variable.h"

#include <gtest/gtest.h>

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using Values = std::vector<float>;

TEST(Variable, FirstSinkOverwritesLaterOnesAdd) {
  const testing::NanMemory nan;
  const Variable x(Tensor::zeros({3}, DType::f32), true);
  GradientSink sink = x.sink();
  EXPECT_FALSE(sink.accumulate);
  sink.tensor.zero();
  sink = {};
  const float* first = x.grad().data<float>();
  sink = x.sink();
  EXPECT_TRUE(sink.accumulate);
  EXPECT_EQ(sink.tensor.data<float>(), first) << "the second contribution is added in place";
}

TEST(Variable, BoundGradientLivesInItsMemory) {
  const Tensor flat = Tensor::zeros({8}, DType::f32);
  const Variable x(Tensor::zeros({2, 2}, DType::f32), true);
  x.bind_gradient(flat.rows(4, 8).view({2, 2}));
  EXPECT_FALSE(x.grad().defined());
  x.give_gradient(Tensor::from<float>({2, 2}, {1, 2, 3, 4}));
  x.give_gradient(Tensor::from<float>({2, 2}, {1, 1, 1, 1}));
  EXPECT_EQ(flat.to_vector<float>(), (Values{0, 0, 0, 0, 2, 3, 4, 5}));
  const GradientSink sink = x.sink();
  EXPECT_TRUE(sink.accumulate);
  EXPECT_EQ(sink.tensor.data<float>(), flat.data<float>() + 4) << "shared flat memory is not copied";
}

TEST(Variable, SharedGradientIsCopiedBeforeItIsChanged) {
  const Variable a(Tensor::zeros({2}, DType::f32), true), b(Tensor::zeros({2}, DType::f32), true);
  const Tensor dy = Tensor::from<float>({2}, {1, 2});
  a.give_gradient(dy);
  b.give_gradient(dy);
  EXPECT_EQ(a.grad().data<float>(), dy.data<float>()) << "the first contribution is shared";

  a.give_gradient(Tensor::from<float>({2}, {10, 10}));
  const GradientSink sink = b.sink();
  ASSERT_TRUE(sink.accumulate);
  sink.tensor.data<float>()[0] += 5;

  EXPECT_EQ(dy.to_vector<float>(), (Values{1, 2}));
  EXPECT_EQ(a.grad().to_vector<float>(), (Values{11, 12}));
  EXPECT_EQ(b.grad().to_vector<float>(), (Values{6, 2}));
}

TEST(Variable, OwnedGradientIsChangedInPlace) {
  const Variable a(Tensor::zeros({2}, DType::f32), true);
  a.give_gradient(Tensor::from<float>({2}, {1, 2}));
  const float* memory = a.grad().data<float>();
  a.give_gradient(Tensor::from<float>({2}, {1, 2}));
  EXPECT_EQ(a.grad().data<float>(), memory);
}

TEST(Variable, Bf16ValuesHaveFloatGradients) {
  const Variable x(Tensor::zeros({2}, DType::bf16), true);
  EXPECT_EQ(x.target().dtype(), DType::f32);
  x.bind_gradient(Tensor::zeros({2}, DType::f32));
  testing::expect_error(Fault::kInternal, {"bf16", "f32"}, [&] { x.bind_gradient(Tensor::zeros({2}, DType::bf16)); });
}

TEST(Variable, CopiesShareValueAndGradient) {
  const Variable x(Tensor::zeros({2}, DType::f32), true);
  const Variable copy = x;
  copy.set_value(Tensor::from<float>({2}, {3, 4}));
  copy.give_gradient(Tensor::from<float>({2}, {1, 1}));
  EXPECT_EQ(x.value().to_vector<float>(), (Values{3, 4}));
  EXPECT_TRUE(x.grad().defined());
  x.clear_gradient();
  EXPECT_FALSE(copy.grad().defined());
}

TEST(Variable, WrongShapesAreErrors) {
  const Variable x(Tensor::zeros({2, 3}, DType::f32), true);
  testing::expect_error(Fault::kInternal, {"[3, 2]", "[2, 3]"}, [&] {
    x.give_gradient(Tensor::zeros({3, 2}, DType::f32));
  });
  testing::expect_error(Fault::kInternal, {"[6]", "[2, 3]"}, [&] { x.set_value(Tensor::zeros({6}, DType::f32)); });
  const Variable constant(Tensor::zeros({2}, DType::f32));
  EXPECT_FALSE(constant.grad().defined());
  testing::expect_error(Fault::kInternal, {"requires no gradient"},
                        [&] { constant.bind_gradient(Tensor::zeros({2}, DType::f32)); });
}

}  // namespace
}  // namespace longhaul
