// The threshold of an entropy gate: attention runs where the backbone's next-token entropy exceeds it. (models.md 6)
#pragma once

#include "core/control/entropy_summary.h"

namespace longhaul {

class EntropyGate {
 public:
  struct Options {
    bool adaptive = true;  ///< tau = mu + kappa s; else tau = mu + margin
    double kappa = 0.2;
    double margin = 0.03;
    double momentum = 0.99;  ///< m
  };
  /// What a checkpoint holds: running median mu and running standard deviation s of the entropies.
  struct State {
    double mean = 0.3;
    double deviation = 0.1;
    bool operator==(const State&) const = default;
  };

  EntropyGate(Options options, State initial) : options_(options), state_(initial) {}

  /// tau, rounded to single precision once. A token fires when its single-precision entropy is strictly greater.
  float threshold() const;
  /// mu <- m mu + (1 - m) median, s <- m s + (1 - m) deviation. An empty summary changes nothing; a single value has no
  /// deviation and leaves s as it is.
  void update(const EntropySummary& summary);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  Options options_;
  State state_;
};

}  // namespace longhaul
