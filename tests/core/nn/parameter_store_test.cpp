#include "core/nn/parameter_store.h"

#include <cmath>
#include <set>

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

using testing::expect_error;

TEST(ParameterStore, LaysParametersOutInReverseWithAlignedStarts) {
  ParameterStore store;
  const Variable first = store.add("first", {3, 5}, WeightDecay::yes, Initialization::constant(1));
  const Variable second = store.add("second", {17}, WeightDecay::no, Initialization::constant(2));
  const Variable third = store.add("third", {2}, WeightDecay::no, Initialization::constant(3));
  EXPECT_EQ(first.shape(), (Shape{3, 5})) << "shapes are known before memory is";
  store.finalize();
  store.initialize(1);

  ASSERT_EQ(store.parameters().size(), 3u);
  EXPECT_EQ(store.parameters()[0].name, "third");
  EXPECT_EQ(store.find("third").offset, 0);
  EXPECT_EQ(store.find("second").offset, 16);
  EXPECT_EQ(store.find("first").offset, 48);
  EXPECT_EQ(store.flat_count(), 64);
  EXPECT_EQ(store.parameter_count(), 34);
  EXPECT_EQ(first.value().raw(), store.flat_values().raw() + 48 * 4);
  EXPECT_EQ(store.flat_values().data<float>()[16], 2.0f);
  EXPECT_EQ(store.flat_values().data<float>()[2], 0.0f) << "gaps are zero";
  EXPECT_EQ(second.value().to_vector<float>(), std::vector<float>(17, 2.0f));
  EXPECT_EQ(third.value().to_vector<float>(), std::vector<float>(2, 3.0f));
}

TEST(ParameterStore, BlocksCoverEveryElementOnceAndNeverCrossParameters) {
  ParameterStore store;
  store.add("small", {5}, WeightDecay::no, Initialization::constant(0));
  store.add("exact", {ParameterStore::kBlockElements}, WeightDecay::no, Initialization::constant(0));
  store.add("large", {3, ParameterStore::kBlockElements - 1}, WeightDecay::yes, Initialization::constant(0));
  store.finalize();
  std::set<int64_t> starts;
  int64_t total = 0, previous_end = 0;
  for (const ParameterBlock& block : store.blocks()) {
    const Parameter& parameter = store.parameters()[static_cast<size_t>(block.parameter)];
    EXPECT_EQ(block.offset, parameter.offset + block.begin);
    EXPECT_LE(block.begin + block.count, parameter.count());
    EXPECT_LE(block.count, ParameterStore::kBlockElements);
    EXPECT_GT(block.count, 0);
    EXPECT_GE(block.offset, previous_end);
    previous_end = block.offset + block.count;
    EXPECT_TRUE(starts.insert(block.offset).second);
    total += block.count;
  }
  EXPECT_EQ(total, store.parameter_count());
  EXPECT_EQ(store.blocks().size(), 3u + 1u + 1u);
}

std::vector<float> initial_values(const std::vector<std::string>& names, const std::string& wanted, uint64_t seed) {
  ParameterStore store;
  for (const std::string& name : names) store.add(name, {1001}, WeightDecay::yes, Initialization::normal(0.02));
  store.finalize();
  store.initialize(seed);
  return store.find(wanted).variable.value().to_vector<float>();
}

TEST(ParameterStore, InitialValuesDependOnSeedAndNameAlone) {
  const std::vector<float> alone = initial_values({"a"}, "a", 5);
  EXPECT_EQ(alone, initial_values({"b", "a", "c"}, "a", 5));
  EXPECT_NE(alone, initial_values({"a"}, "a", 6));
  EXPECT_NE(alone, initial_values({"b"}, "b", 5));
}

TEST(ParameterStore, NormalInitialisationHasItsMoments) {
  ParameterStore store(DType::f64);
  const int64_t count = 200000;
  store.add("w", {count}, WeightDecay::yes, Initialization::normal(0.5));
  store.finalize();
  store.initialize(3);
  double mean = 0, square = 0, fourth = 0;
  for (const double x : store.flat_values().span<double>()) {
    mean += x / count;
    square += x * x / count;
    fourth += x * x * x * x / count;
  }
  EXPECT_NEAR(mean, 0, 5 * 0.5 / std::sqrt(count));
  EXPECT_NEAR(square, 0.25, 0.005);
  EXPECT_NEAR(fourth / (square * square), 3, 0.06);
}

TEST(ParameterStore, CustomInitialisationSeesIndexAndDraw) {
  ParameterStore store;
  Initialization custom{Initialization::Kind::custom, 0, [](int64_t index, double uniform) {
                          EXPECT_GE(uniform, 0);
                          EXPECT_LT(uniform, 1);
                          return static_cast<double>(index);
                        }};
  const Variable w = store.add("w", {6}, WeightDecay::no, custom);
  store.finalize();
  store.initialize(3);
  EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(ParameterStore, GradientsGoToTheBoundBuffer) {
  ParameterStore store;
  const Variable a = store.add("a", {2}, WeightDecay::yes, Initialization::constant(0));
  const Variable b = store.add("b", {3}, WeightDecay::yes, Initialization::constant(0));
  store.finalize();
  const Tensor flat = store.make_flat_buffer(DType::f32);
  flat.data<float>()[0] = 99;  // left over from the last step
  store.bind_gradients(flat);
  a.give_gradient(Tensor::from<float>({2}, {1, 2}));
  store.zero_absent_gradients();
  EXPECT_EQ(flat.data<float>()[16], 1.0f);
  EXPECT_EQ(flat.data<float>()[0], 0.0f);
  EXPECT_TRUE(b.grad().defined());
}

TEST(ParameterStore, Bf16ValuesHaveFloatGradients) {
  ParameterStore store(DType::bf16);
  const Variable a = store.add("a", {2}, WeightDecay::yes, Initialization::constant(1.5));
  store.finalize();
  store.initialize(0);
  EXPECT_EQ(a.dtype(), DType::bf16);
  EXPECT_EQ(a.value().to(DType::f32).to_vector<float>(), (std::vector<float>{1.5, 1.5}));
  const Tensor flat = store.make_flat_buffer(DType::f32);
  store.bind_gradients(flat);
  a.give_gradient(Tensor::from<float>({2}, {1, 2}));
  EXPECT_EQ(flat.data<float>()[1], 2.0f);
  expect_error(Fault::kInternal, {"bf16"}, [&] { store.bind_gradients(store.make_flat_buffer(DType::bf16)); });
}

TEST(ParameterStore, MistakesAreErrors) {
  ParameterStore store;
  store.add("layers.0.weight", {2}, WeightDecay::yes, Initialization::constant(0));
  store.add("head.bias", {2}, WeightDecay::no, Initialization::constant(0));
  expect_error(Fault::kInternal, {"head.bias", "twice"},
               [&] { store.add("head.bias", {2}, WeightDecay::no, Initialization::constant(0)); });
  expect_error(Fault::kInternal, {"before"}, [&] { store.initialize(1); });
  store.finalize();
  expect_error(Fault::kInternal, {"late"},
               [&] { store.add("late", {2}, WeightDecay::no, Initialization::constant(0)); });
  expect_error(Fault::kInternal, {"fixed already"}, [&] { store.finalize(); });
  expect_error(Fault::kUser, {"'layer.0.weight'", "'layers.0.weight'"}, [&] { store.find("layer.0.weight"); });
  expect_error(Fault::kInternal, {"[3]"}, [&] { store.bind_gradients(Tensor::zeros({3}, DType::f32)); });
}

}  // namespace
}  // namespace longhaul
