// Guardian's policy: a perceptron 4-64-64-3 with tanh between, whose outputs are the means of a diagonal Gaussian.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace longhaul {

/// Plain double loops in a fixed order: the same bits on every rank.
class GaussianPolicy {
 public:
  static constexpr int64_t kInputs = 4, kHidden = 64, kOutputs = 3;
  using Features = std::array<double, kInputs>;
  using Action = std::array<double, kOutputs>;

  /// What a checkpoint holds: parameters in the order first weight [kInputs, kHidden], bias, second weight
  /// [kHidden, kHidden], bias, third weight [kHidden, kOutputs], bias, log deviations [kOutputs]; Adam's moments alike.
  struct State {
    std::vector<double> parameters, first_moments, second_moments;
    int64_t updates = 0;
    bool operator==(const State&) const = default;
  };
  static constexpr int64_t kParameters =
      (kInputs + 1) * kHidden + (kHidden + 1) * kHidden + (kHidden + 1) * kOutputs + kOutputs;

  /// Weights and biases uniform in +-1/sqrt(inputs of the layer), log deviations 0.
  static State initial(uint64_t seed);

  struct Distribution {
    Action mean{}, deviation{};
  };
  static Distribution distribution(const State& state, const Features& features);
  static double log_density(const State& state, const Features& features, const Action& action);
  /// Gradient of the REINFORCE loss -log pi(action) advantage by the parameters, hand-written.
  static std::vector<double> gradient(const State& state, const Features& features, const Action& action,
                                      double advantage);
  /// One Adam step (decays 0.9 and 0.999, epsilon 1e-8) on that loss.
  static void learn(State& state, const Features& features, const Action& action, double advantage,
                    double learning_rate);
};

}  // namespace longhaul
