#include "core/models/gate_router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/models/router_fit.h"
#include "kernels/error.h"
#include "kernels/philox.h"

namespace longhaul {
namespace {

Tensor random_inputs(int64_t rows, int64_t columns, uint64_t seed) {
  const Tensor tensor = Tensor::empty({rows, columns}, DType::f32);
  const std::span<float> values = tensor.span<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits[4];
    kernels::random_bits4({seed, 0, 0}, 0, i, bits);
    values[i] = 4 * kernels::uniform_from_bits(bits[0]) - 2;
  }
  return tensor;
}

RouterSamples samples_of(const Tensor& inputs, const std::function<double(const float*)>& entropy) {
  RouterSamples samples{inputs, Tensor::empty({inputs.size(0)}, DType::f32)};
  for (int64_t i = 0; i < inputs.size(0); ++i) {
    samples.entropies.data<float>()[i] = static_cast<float>(entropy(inputs.data<float>() + i * inputs.size(1)));
  }
  return samples;
}

double mean_square_error(const GateRouter& router, const RouterSamples& samples) {
  const Tensor found = router.predict(samples.inputs);
  double sum = 0;
  for (int64_t i = 0; i < found.count(); ++i) {
    const double error = found.data<float>()[i] - samples.entropies.data<float>()[i];
    sum += error * error;
  }
  return sum / static_cast<double>(found.count());
}

TEST(GateRouter, PredictsLinearPlusHiddenUnits) {
  const GateRouter router(2, 1);
  const std::vector<float> linear{1, -2}, weight{0.5, 1};
  router.linear().copy_from(Tensor::from<float>({2}, linear));
  router.bias().data<float>()[0] = 0.25;
  router.hidden_weight().copy_from(Tensor::from<float>({1, 2}, weight));
  router.hidden_bias().data<float>()[0] = -1;
  router.output().data<float>()[0] = 3;
  const Tensor found = router.predict(Tensor::from<float>({2, 2}, {2, 1, 4, 1}));
  EXPECT_FLOAT_EQ(found.data<float>()[0], static_cast<float>(0.25 + 3 * 1 / (1 + std::exp(-1.0))));
  EXPECT_FLOAT_EQ(found.data<float>()[1], static_cast<float>(2.25 + 3 * 2 / (1 + std::exp(-2.0))));
  EXPECT_THROW(router.predict(Tensor::zeros({1, 3}, DType::f32)), Error);
}

TEST(FitRouter, FindsALinearRuleWithoutPasses) {
  const auto rule = [](const float* u) { return 0.5 + 0.1 * u[0] - 0.2 * u[2]; };
  const GateRouter router = fit_router(samples_of(random_inputs(200, 3, 1), rule), {.ridge = 1e-9, .passes = 0});
  EXPECT_NEAR(router.bias().data<float>()[0], 0.5, 1e-5);
  EXPECT_NEAR(router.linear().data<float>()[0], 0.1, 1e-5);
  EXPECT_NEAR(router.linear().data<float>()[1], 0, 1e-5);
  EXPECT_LT(mean_square_error(router, samples_of(random_inputs(50, 3, 2), rule)), 1e-10);
}

TEST(FitRouter, RidgeKeepsConstantAndRepeatedChannelsFinite) {
  const Tensor inputs = random_inputs(40, 3, 1);
  for (int64_t i = 0; i < 40; ++i) {
    inputs.data<float>()[3 * i + 1] = 1;
    inputs.data<float>()[3 * i + 2] = inputs.data<float>()[3 * i];
  }
  const RouterSamples samples = samples_of(inputs, [](const float* u) { return 0.2 * u[0]; });
  EXPECT_LT(mean_square_error(fit_router(samples, {.passes = 0}), samples), 1e-5);
}

TEST(FitRouter, PassesLearnWhatIsNotLinear) {
  const auto rule = [](const float* u) { return 0.5 + 0.2 * std::abs(u[0]) - 0.1 * u[1] * u[1]; };
  const RouterSamples samples = samples_of(random_inputs(1000, 4, 1), rule);
  const RouterSamples held_out = samples_of(random_inputs(300, 4, 2), rule);
  const double linear = mean_square_error(fit_router(samples, {.passes = 0}), held_out);
  const GateRouter fitted = fit_router(samples, {.passes = 20, .batch = 50, .learning_rate = 5e-3, .hidden_units = 64});
  EXPECT_LT(mean_square_error(fitted, held_out), 0.2 * linear);
}

TEST(FitRouter, PassesThatDoNotHelpAreUndone) {
  const RouterSamples samples = samples_of(random_inputs(64, 3, 1), [](const float* u) { return 0.5 + 0.1 * u[0]; });
  const GateRouter start = fit_router(samples, {.passes = 0});
  const GateRouter wild = fit_router(samples, {.passes = 3, .batch = 8, .learning_rate = 1});
  EXPECT_EQ(wild.flat().to_vector<float>(), start.flat().to_vector<float>());
}

TEST(FitRouter, NeedsSamples) {
  EXPECT_THROW(fit_router({Tensor::zeros({0, 3}, DType::f32), Tensor::zeros({0}, DType::f32)}, {}), Error);
}

}  // namespace
}  // namespace longhaul
