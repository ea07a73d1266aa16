// What follows from a validation for the averages of the weights: when the mean of snapshots takes one, and which of
// raw, ema and swa is best. (training-dynamics.md, "Selective SWA")
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/control/selective_average.h"
#include "launch/config/configuration.h"
#include "launch/training/training_state.h"
#include "parallel/sharded_optimizer.h"

namespace longhaul {

class WeightSelection {
 public:
  /// user_error when swa.enabled without validations.
  explicit WeightSelection(const Configuration& configuration);

  /// Scores every kind of weights kept, after the decision about a snapshot, so that its score counts it. `score` gives
  /// the mean cross-entropy of the values as they stand, equal on all ranks; `data` is the identity of what it scores.
  /// Collective. The decision, when a mean of snapshots is kept.
  std::optional<SelectiveAverage::Decision> validate(int64_t step, const std::string& data, ShardedOptimizer& optimizer,
                                                     const std::function<double(const std::string& weights)>& score);

  /// Of the last validation; no weights before it, and none when nothing had a finite score.
  const BestWeights& best() const { return best_; }

  std::optional<SelectiveAverage::State> state() const;
  /// As it was in a checkpoint. Without a state the mean starts anew; a mark of weights no longer kept is dropped.
  void restore(const std::optional<SelectiveAverage::State>& state, const BestWeights& best);

 private:
  void compare(int64_t step, const std::string& weights, double cross_entropy);

  bool keeps_ema_;
  std::optional<SelectiveAverage> swa_;
  BestWeights best_;
};

}  // namespace longhaul
