#include "core/autograd/early_gradient.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul {
namespace {

using Values = std::vector<float>;

class EarlyGradientTest : public ::testing::Test {
 protected:
  static Tensor vector(float a, float b) { return Tensor::from<float>({2}, {a, b}); }
  const Tensor memory_ = vector(-1, -1);
  const Variable x_{Tensor::zeros({2}, DType::f32), true};
};

TEST_F(EarlyGradientTest, LiesInFreeBoundMemoryAndIsAbsentUntilDelivered) {
  x_.bind_gradient(memory_);
  EarlyGradient early(x_.target());
  EXPECT_EQ(early.tensor().raw(), memory_.raw());
  early.tensor().copy_from(vector(1, 2));
  EXPECT_FALSE(x_.grad().defined());
  early.deliver(3.0);
  EXPECT_EQ(x_.grad().raw(), memory_.raw());
  EXPECT_EQ(memory_.to_vector<float>(), (Values{3, 6}));
}

TEST_F(EarlyGradientTest, OtherContributionsMeanwhileAreAdded) {
  x_.bind_gradient(memory_);
  EarlyGradient early(x_.target());
  early.tensor().copy_from(vector(1, 2));
  x_.give_gradient(vector(10, 20));
  const GradientSink sink = x_.sink();
  EXPECT_TRUE(sink.accumulate);
  sink.tensor.data<float>()[0] += 100;
  EXPECT_EQ(memory_.to_vector<float>(), (Values{1, 2})) << "the early gradient is untouched";
  early.deliver(0.5);
  EXPECT_EQ(x_.grad().raw(), memory_.raw());
  EXPECT_EQ(memory_.to_vector<float>(), (Values{110.5, 21}));
}

TEST_F(EarlyGradientTest, TwoOnOneVariable) {
  x_.bind_gradient(memory_);
  EarlyGradient first(x_.target()), second(x_.target());
  first.tensor().copy_from(vector(1, 2));
  second.tensor().copy_from(vector(10, 20));
  second.deliver(1.0);  // backward runs in reverse
  first.deliver(2.0);
  EXPECT_EQ(memory_.to_vector<float>(), (Values{12, 24}));
  EXPECT_EQ(x_.grad().raw(), memory_.raw());
}

TEST_F(EarlyGradientTest, AddsToAGradientThatIsThere) {
  x_.bind_gradient(memory_);
  x_.give_gradient(vector(5, 5));
  EarlyGradient early(x_.target());
  EXPECT_NE(early.tensor().raw(), memory_.raw());
  early.tensor().copy_from(vector(1, 2));
  early.deliver(2.0);
  EXPECT_EQ(memory_.to_vector<float>(), (Values{7, 9}));
}

TEST_F(EarlyGradientTest, DroppedOnesLeaveNoTrace) {
  x_.bind_gradient(memory_);
  { EarlyGradient early(x_.target()); }
  EXPECT_FALSE(x_.grad().defined());
  x_.give_gradient(vector(4, 4));
  EXPECT_EQ(memory_.to_vector<float>(), (Values{4, 4}));
  x_.clear_gradient();
  {
    EarlyGradient early(x_.target());
    early.tensor().copy_from(vector(1, 2));
    x_.give_gradient(vector(7, 8));
  }
  EXPECT_EQ(memory_.to_vector<float>(), (Values{7, 8}));
  EXPECT_EQ(x_.grad().raw(), memory_.raw());
}

TEST_F(EarlyGradientTest, SurvivesAnotherBindingInBetween) {
  x_.bind_gradient(memory_);
  EarlyGradient early(x_.target());
  early.tensor().copy_from(vector(1, 2));
  const Tensor other = vector(-1, -1);
  x_.bind_gradient(other);
  early.deliver(1.0);
  EXPECT_EQ(other.to_vector<float>(), (Values{1, 2}));
  EXPECT_EQ(x_.grad().raw(), other.raw());
}

TEST_F(EarlyGradientTest, UnboundVariablesTakeItWithoutACopy) {
  EarlyGradient early(x_.target());
  early.tensor().copy_from(vector(1, 2));
  const std::byte* memory = early.tensor().raw();
  early.deliver(1.0);
  EXPECT_EQ(x_.grad().raw(), memory);
  EXPECT_TRUE(x_.grad().unique());
}

}  // namespace
}  // namespace longhaul
