#include "core/autograd/tape.h"

#include <string>

#include "core/ops/add.h"
#include "core/ops/linear.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::random_tensor;
using Values = std::vector<double>;

Variable parameter(std::initializer_list<double> values) {
  return Variable(Tensor::from<double>({static_cast<int64_t>(values.size())}, values), true);
}

/// factor * x, with a note when its backward has run.
Variable scaled(Tape& tape, const Variable& x, double factor, std::vector<std::string>* notes = nullptr,
                const std::string& note = "") {
  const Tensor y = x.value().clone();
  for (double& value : y.span<double>()) value *= factor;
  return tape.record("scaled", y, {x}, [target = x.target(), factor, notes, note](const Tensor& dy) {
    const Tensor dx = dy.clone();
    for (double& value : dx.span<double>()) value *= factor;
    if (notes != nullptr) notes->push_back(note);
    target.give(dx);
  });
}

TEST(Tape, RunsBackwardInReverse) {
  Tape tape;
  std::vector<std::string> notes;
  const Variable x = parameter({1});
  const Variable y = scaled(tape, scaled(tape, x, 2, &notes, "first"), 3, &notes, "second");
  tape.backward(y, 0.5);
  EXPECT_EQ(notes, (std::vector<std::string>{"second", "first"}));
  EXPECT_EQ(x.grad().item<double>(), 3.0);
}

TEST(Tape, SkipsOutputsNobodyUsed) {
  Tape tape;
  std::vector<std::string> notes;
  const Variable x = parameter({1});
  scaled(tape, x, 5, &notes, "unused");
  tape.backward(scaled(tape, x, 2, &notes, "used"));
  EXPECT_EQ(notes, (std::vector<std::string>{"used"}));
  EXPECT_EQ(x.grad().item<double>(), 2.0);
}

TEST(Tape, OffRecordsNothing) {
  Tape tape(Tape::Mode::off);
  const Variable x = parameter({1});
  EXPECT_FALSE(tape.needs_backward({&x}));
  const Variable y = scaled(tape, x, 2);
  EXPECT_FALSE(y.requires_grad());
  testing::expect_error(Fault::kInternal, {"backward"}, [&] { tape.backward(y); });
}

TEST(Tape, ConstantsAndUndefinedInputsRecordNothing) {
  Tape tape;
  const Variable constant(Tensor::from<double>({1}, {1.0})), undefined;
  EXPECT_FALSE(tape.needs_backward({&constant, &undefined}));
  EXPECT_FALSE(
      tape.record("op", constant.value(), {constant, undefined}, [](const Tensor&) { FAIL(); }).requires_grad());
}

TEST(Tape, LossMustBeOneElement) {
  Tape tape;
  testing::expect_error(Fault::kInternal, {"[2]"}, [&] { tape.backward(scaled(tape, parameter({1, 2}), 2)); });
}

TEST(Tape, ErrorsNameTheOp) {
  Tape tape;
  const Variable x = parameter({1});
  const Variable y = tape.record("matter", x.value(), {x}, [](const Tensor&) { throw user_error("cause"); });
  testing::expect_error(Fault::kUser, {"backward of matter: cause"}, [&] { tape.backward(y); });
}

// h = x + f(x) with the sum's gradient shared by both branches: adding f's contribution in place would change what the
// other holder of the same memory sees.
TEST(Tape, ResidualBranchesNeverCorruptEachOther) {
  for (const bool keep_handles : {false, true}) {
    Tape tape;
    const Variable x = parameter({1, 2}), other = parameter({5, 6});
    Variable seen;  // a second holder of the shared gradient: written after x has accumulated
    {
      const Variable branch = scaled(tape, x, 10);
      const Variable sum = ops::add(tape, x, ops::add(tape, branch, other));
      if (keep_handles) seen = sum;
      tape.backward_from(sum, Tensor::from<double>({2}, {1, 2}));
    }
    EXPECT_EQ(x.grad().to_vector<double>(), (Values{11, 22}));
    EXPECT_EQ(other.grad().to_vector<double>(), (Values{1, 2})) << "the branch wrote through an alias";
  }
}

TEST(Tape, SameVariableTwiceInOneOp) {
  Tape tape;
  const Variable x = parameter({3});
  tape.backward(ops::add(tape, x, x));
  EXPECT_EQ(x.grad().item<double>(), 2.0);
}

TEST(Tape, ResidualChainAccumulatesInPlace) {
  const int64_t size = 64, block = size * size * 8;
  Tape tape;
  const Variable x(random_tensor({size, size}, 1), true), weight(random_tensor({size, size}, 2), true);
  Variable h = x;
  for (int layer = 0; layer < 6; ++layer) h = ops::add(tape, h, ops::linear(tape, h, weight));
  const Tensor seed = random_tensor(h.shape(), 3);
  weight.bind_gradient(Tensor::empty(weight.shape(), DType::f64));
  allocator::reset_peak({});
  const int64_t before = allocator::use({}).live_bytes;
  tape.backward_from(h, seed);
  // `seed` is still held here, so the first accumulation copies it once; every later one is in place.
  EXPECT_LE(allocator::use({}).peak_bytes, before + block);
}

TEST(Tape, FreesActivationsDuringBackward) {
  const int64_t size = 64;
  Tape tape;
  const Variable x(random_tensor({size, size}, 1), true);
  std::vector<int64_t> live;
  Variable h = x;
  for (int layer = 0; layer < 8; ++layer) {
    const Tensor activation = random_tensor({size, size}, 2);
    h = tape.record("layer", activation, {h}, [activation, target = h.target(), &live](const Tensor& dy) {
      live.push_back(allocator::use({}).live_bytes);
      target.give(dy);
    });
  }
  const Tensor seed = random_tensor({size, size}, 3);
  tape.backward_from(std::exchange(h, Variable()), seed);
  ASSERT_EQ(live.size(), 8u);
  for (size_t i = 2; i < live.size(); ++i) EXPECT_LE(live[i], live[i - 1] - size * size * 8) << "entry " << i;
}

TEST(Tape, KeepsNoValuesItDoesNotRead) {
  Tape tape;
  const Variable x(random_tensor({64, 64}, 1), true), y(random_tensor({64, 64}, 2), true);
  const int64_t before = allocator::use({}).live_bytes;
  const Variable sum = ops::add(tape, ops::add(tape, x, y), y);  // the inner sum is read by nobody afterwards
  EXPECT_EQ(allocator::use({}).live_bytes, before + 64 * 64 * 8);
}

class ReadyTest : public ::testing::Test {
 protected:
  Variable watched(std::initializer_list<double> values, const std::string& name) {
    const Variable variable = parameter(values);
    // The target lives in the fixture: a callback that held it would keep it, and itself, alive for ever.
    targets_.push_back(variable.target());
    variable.on_gradient_ready([this, name, index = targets_.size() - 1] {
      const Tensor& gradient = targets_[index].gradient();
      notes_.push_back(name + (gradient.defined() ? "" : " (absent)"));
      if (gradient.defined()) final_.push_back(gradient.data<double>()[0]);
    });
    return variable;
  }
  std::vector<GradientTarget> targets_;
  std::vector<std::string> notes_;
  Values final_;
};

TEST_F(ReadyTest, FiresAtTheLastUse) {
  Tape tape;
  const Variable early = watched({1}, "early"), late = watched({1}, "late");
  Variable h = ops::add(tape, early, early);
  h = ops::add(tape, h, late);
  tape.backward(scaled(tape, h, 4, &notes_, "head"));
  EXPECT_EQ(notes_, (std::vector<std::string>{"head", "late", "early"}));
}

TEST_F(ReadyTest, TiedParameterFiresOnceAndLastWithTheWholeSum) {
  Tape tape;
  const Variable tied = watched({2}, "tied"), middle = watched({1}, "middle");
  const Variable embedded = scaled(tape, tied, 3);
  const Variable h = ops::add(tape, embedded, middle);
  tape.backward(ops::add(tape, h, scaled(tape, tied, 5)));
  EXPECT_EQ(notes_, (std::vector<std::string>{"middle", "tied"}));
  EXPECT_EQ(final_.back(), 8.0);
}

TEST_F(ReadyTest, UnreachedBoundParametersAreZeroWhenReady) {
  Tape tape;
  const Variable unreached = watched({1}, "unreached"), x = watched({1}, "x");
  const Tensor memory = Tensor::from<double>({1}, {99});
  unreached.bind_gradient(memory);
  scaled(tape, unreached, 2);
  tape.backward(scaled(tape, x, 2));
  EXPECT_EQ(notes_, (std::vector<std::string>{"x", "unreached"}));
  EXPECT_EQ(memory.item<double>(), 0.0);
}

TEST_F(ReadyTest, ATapeThatIsDroppedLeavesNoUsesBehind) {
  const Variable x = watched({1}, "x");
  {
    Tape dropped;
    scaled(dropped, x, 2);
  }
  Tape tape;
  tape.backward(scaled(tape, x, 2));
  EXPECT_EQ(notes_, (std::vector<std::string>{"x"}));
}

TEST_F(ReadyTest, FiresOncePerStep) {
  const Variable x = watched({1}, "x");
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    tape.backward(scaled(tape, scaled(tape, x, 2), 2));
  }
  EXPECT_EQ(notes_.size(), 3u);
}

TEST_F(ReadyTest, RecomputedUsesCountOnce) {
  Tape tape;
  const Variable weight = watched({2}, "weight"), x = watched({1}, "x");
  const auto block = [&](Tape& inner, const Variable& input) {
    return ops::add(inner, scaled(inner, weight, 3), ops::add(inner, input, weight));
  };
  Variable h = recompute(tape, x, {weight}, block);
  h = recompute(tape, h, {weight}, block);
  tape.backward(ops::add(tape, h, weight));
  EXPECT_EQ(notes_, (std::vector<std::string>{"weight", "x"}));
  EXPECT_EQ(final_, (Values{9, 1}));
}

}  // namespace
}  // namespace longhaul
