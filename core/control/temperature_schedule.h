// The scripted temperature of the prior that Guardian is compared with: warm-in, cosine, and a nudge up when a
// validation late in training gained too little. (training-dynamics.md)
#pragma once

#include <cstdint>
#include <string>

#include "core/control/validation_measure.h"

namespace longhaul {

class TemperatureSchedule {
 public:
  struct Options {
    double first = 1.6;            ///< at step 0
    double reached = 0.68;         ///< linearly within warm_in_steps
    double last = 0.6;             ///< by a cosine over the next cosine_steps, then kept
    int64_t warm_in_steps = 1200;  ///< 0: starts at `reached`
    int64_t cosine_steps = 6830;
    double zone = 5.6;                   ///< cross entropy at or below which the nudge may come
    double least_gain = 0.002;           ///< epsilon: CE_prev - CE below it is too little
    double nudge = 0.02;                 ///< added to the temperature for good
    double lowest = 0.3, highest = 1.6;  ///< of the sum
  };
  /// What a checkpoint holds.
  struct State {
    double nudges = 0;         ///< their sum
    double cross_entropy = 0;  ///< of the last usable validation, there is one when `data` is not empty
    std::string data;          ///< the first usable validation's
    bool operator==(const State&) const = default;
  };
  /// One validation, for the log.
  struct Decision {
    Usability usability = Usability::usable;
    bool nudged = false;
    double gain = 0;  ///< CE_prev - CE; 0 at the first usable validation
    double nudges = 0;
    std::string line() const;
  };

  /// user_error if a temperature is not positive or the range is empty.
  explicit TemperatureSchedule(Options options);

  double temperature(int64_t step) const;  ///< of optimizer step `step` (the first is 1)
  /// An unusable validation changes nothing.
  Decision decide(const ValidationMeasure& measure);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  Options options_;
  State state_;
};

}  // namespace longhaul
