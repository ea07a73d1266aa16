#include "core/control/gaussian_policy.h"

#include <cmath>
#include <numbers>

#include "core/control/controller_random.h"
#include "kernels/adamw.h"

namespace longhaul {
namespace {

constexpr int64_t kInputs = GaussianPolicy::kInputs, kHidden = GaussianPolicy::kHidden;
constexpr int64_t kOutputs = GaussianPolicy::kOutputs;
constexpr int64_t kFirstBias = kInputs * kHidden, kSecondWeight = kFirstBias + kHidden;
constexpr int64_t kSecondBias = kSecondWeight + kHidden * kHidden, kThirdWeight = kSecondBias + kHidden;
constexpr int64_t kThirdBias = kThirdWeight + kHidden * kOutputs, kLogDeviation = kThirdBias + kOutputs;

using Hidden = std::array<double, kHidden>;

struct Activations {
  Hidden first, second;  ///< after tanh
  GaussianPolicy::Action mean;
};

/// x W + bias, with W [inputs, outputs].
template <size_t kIn, size_t kOut>
std::array<double, kOut> linear(const std::array<double, kIn>& x, const double* weight, const double* bias) {
  std::array<double, kOut> y;
  for (size_t o = 0; o < kOut; ++o) y[o] = bias[o];
  for (size_t i = 0; i < kIn; ++i) {
    for (size_t o = 0; o < kOut; ++o) y[o] += x[i] * weight[i * kOut + o];
  }
  return y;
}

Hidden tanh_of(Hidden x) {
  for (double& value : x) value = std::tanh(value);
  return x;
}

Activations forward(const std::vector<double>& parameters, const GaussianPolicy::Features& features) {
  const double* const p = parameters.data();
  Activations result;
  result.first = tanh_of(linear<kInputs, kHidden>(features, p, p + kFirstBias));
  result.second = tanh_of(linear<kHidden, kHidden>(result.first, p + kSecondWeight, p + kSecondBias));
  result.mean = linear<kHidden, kOutputs>(result.second, p + kThirdWeight, p + kThirdBias);
  return result;
}

/// Writes the gradients of weight and bias for d loss / d y.
template <size_t kIn, size_t kOut>
void linear_gradient(const std::array<double, kIn>& x, const std::array<double, kOut>& y_gradient, double* weight,
                     double* bias) {
  for (size_t i = 0; i < kIn; ++i) {
    for (size_t o = 0; o < kOut; ++o) weight[i * kOut + o] = x[i] * y_gradient[o];
  }
  for (size_t o = 0; o < kOut; ++o) bias[o] = y_gradient[o];
}

/// d loss / d (input of the tanh), from that of the linear map after it.
template <size_t kOut>
Hidden through_tanh(const Hidden& activation, const std::array<double, kOut>& y_gradient, const double* weight) {
  Hidden gradient;
  for (size_t i = 0; i < kHidden; ++i) {
    double sum = 0;
    for (size_t o = 0; o < kOut; ++o) sum += weight[i * kOut + o] * y_gradient[o];
    gradient[i] = sum * (1 - activation[i] * activation[i]);
  }
  return gradient;
}

}  // namespace

GaussianPolicy::State GaussianPolicy::initial(uint64_t seed) {
  State state;
  state.parameters.assign(kParameters, 0.0);
  state.first_moments = state.second_moments = state.parameters;
  const ControllerRandom random(seed, ControllerStream::guardian_start, 0);
  for (int64_t i = 0; i < kLogDeviation; ++i) {
    const int64_t inputs = i < kSecondWeight ? kInputs : kHidden;
    state.parameters[i] = (2 * random.uniform(i) - 1) / std::sqrt(static_cast<double>(inputs));
  }
  return state;
}

GaussianPolicy::Distribution GaussianPolicy::distribution(const State& state, const Features& features) {
  Distribution result{.mean = forward(state.parameters, features).mean};
  for (int64_t o = 0; o < kOutputs; ++o) result.deviation[o] = std::exp(state.parameters[kLogDeviation + o]);
  return result;
}

double GaussianPolicy::log_density(const State& state, const Features& features, const Action& action) {
  const auto [mean, deviation] = distribution(state, features);
  double sum = 0;
  for (int64_t o = 0; o < kOutputs; ++o) {
    const double distance = (action[o] - mean[o]) / deviation[o];
    sum -= 0.5 * distance * distance + std::log(deviation[o]) + 0.5 * std::log(2 * std::numbers::pi);
  }
  return sum;
}

std::vector<double> GaussianPolicy::gradient(const State& state, const Features& features, const Action& action,
                                             double advantage) {
  const double* const p = state.parameters.data();
  const Activations layers = forward(state.parameters, features);
  std::vector<double> gradient(kParameters);
  double* const g = gradient.data();
  Action mean_gradient;
  for (int64_t o = 0; o < kOutputs; ++o) {
    const double deviation = std::exp(p[kLogDeviation + o]), distance = (action[o] - layers.mean[o]) / deviation;
    mean_gradient[o] = -advantage * distance / deviation;
    g[kLogDeviation + o] = -advantage * (distance * distance - 1);
  }
  linear_gradient(layers.second, mean_gradient, g + kThirdWeight, g + kThirdBias);
  const Hidden second = through_tanh(layers.second, mean_gradient, p + kThirdWeight);
  linear_gradient(layers.first, second, g + kSecondWeight, g + kSecondBias);
  const Hidden first = through_tanh(layers.first, second, p + kSecondWeight);
  linear_gradient(features, first, g, g + kFirstBias);
  return gradient;
}

void GaussianPolicy::learn(State& state, const Features& features, const Action& action, double advantage,
                           double learning_rate) {
  const std::vector<double> gradient = GaussianPolicy::gradient(state, features, action, advantage);
  const double updates = static_cast<double>(++state.updates);
  const kernels::AdamWStep step{.learning_rate = learning_rate,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .epsilon = 1e-8,
                                .weight_decay = 0,
                                .gradient_scale = 1,
                                .bias_correction1 = 1 - std::pow(0.9, updates),
                                .bias_correction2 = 1 - std::pow(0.999, updates)};
  kernels::adamw_update(kernels::Cpu{}, state.parameters.data(), state.first_moments.data(),
                        state.second_moments.data(), gradient.data(), kParameters, step);
}

}  // namespace longhaul
