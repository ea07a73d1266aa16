// Selective weight averaging: when a snapshot of the weights enters the running mean, and with which weight. The mean
// itself is kept where the sharded tensors are. (training-dynamics.md)
#pragma once

#include <cstdint>
#include <string>

#include "core/control/validation_measure.h"

namespace longhaul {

class SelectiveAverage {
 public:
  struct Options {
    double zone = 5.6;          ///< a validation at or below this cross entropy is inside the useful zone
    double least_gain = 0.005;  ///< (CE_entry - CE) / CE_entry must exceed it
    int64_t start_step = 0;     ///< no snapshot at earlier steps
  };
  /// What a checkpoint holds.
  struct State {
    bool entered = false;   ///< a usable validation was inside the zone
    double entry = 0;       ///< the first such validation's cross entropy
    int64_t snapshots = 0;  ///< n
    std::string data;       ///< the first usable validation's
    bool operator==(const State&) const = default;
  };
  /// One validation, for the log.
  struct Decision {
    Usability usability = Usability::usable;
    bool take = false;  ///< average <- average + weight (weights - average), element by element
    double weight = 0;  ///< 1 / n with this snapshot counted: the first replaces whatever was there
    bool in_zone = false;
    double gain = 0;        ///< relative to the entry
    int64_t snapshots = 0;  ///< n, after the decision
    std::string line() const;
  };

  explicit SelectiveAverage(Options options) : options_(options) {}

  /// Judges the weights of optimizer step `step` by their validation. The entry is kept when the zone is left again; an
  /// unusable validation changes nothing.
  Decision decide(int64_t step, const ValidationMeasure& measure);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  Options options_;
  State state_;
};

}  // namespace longhaul
