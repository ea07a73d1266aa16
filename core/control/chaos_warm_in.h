// Bounded chaotic warm-in: a logistic map whose shrinking amplitude modulates the learning rate and the prior's warm-in
// scale. (training-dynamics.md)
#pragma once

#include <cstdint>

namespace longhaul {

/// The factor is a function of the step alone; the state only spares iterating the map from the start.
class ChaosWarmIn {
 public:
  struct Options {
    double growth = 3.9;      ///< x <- growth x (1 - x)
    double start = 0.721;     ///< x_0
    double amplitude = 0.25;  ///< a_t = amplitude exp(-decay t); 0: the factor is exactly 1
    double decay = 5e-4;
  };
  struct State {
    int64_t step = 0;
    double x = 0;  ///< x_step
    bool operator==(const State&) const = default;
  };

  /// user_error unless 0 < growth <= 4, 0 < start < 1, 0 <= amplitude <= 1 and decay >= 0: x then stays in (0, 1).
  explicit ChaosWarmIn(Options options);

  /// (1 - a_t) + a_t x_t at t = step >= 0, in (1 - a_t, 1].
  double factor(int64_t step);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  Options options_;
  State state_;
};

}  // namespace longhaul
