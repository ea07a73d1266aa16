// The game of context lengths in a training run: which length a slot plays, what its losses tell the game, what a
// checkpoint keeps. Without [game] a game of the one length data.context, which shows and stores nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/control/context_game.h"
#include "core/tensor/batch.h"
#include "launch/config/configuration.h"
#include "launch/training/training_engine.h"

namespace longhaul {

/// One update of the game, for the log.
struct GameReport {
  ContextGame::Decision decision;
  std::vector<ContextGame::Sums> played;  ///< since the update before, in the order of the lengths
  double imbalance = 1;  ///< forward and backward seconds of the busiest rank over their mean, since the update before
};

class LengthGame {
 public:
  /// user_error naming the key unless the lengths ascend, divide data.context and end with it.
  explicit LengthGame(const Configuration& configuration);

  /// Ascending; data.context alone without a game.
  const std::vector<int64_t>& lengths() const { return game_.options().lengths; }
  /// The rows of a slot, cut to the length it plays at this step.
  Batch split(const Batch& batch, int64_t step, int64_t slot) const;
  /// Takes in a step that has run; every game.every steps also updates the probabilities. Collective.
  std::optional<GameReport> observe(int64_t step, const StepResult& result, Communicator& group);

  /// Nothing for a single length, where there is nothing to choose.
  std::optional<ContextGame::State> state() const;
  /// Nothing: starts afresh. user_error naming `origin` when the state is of another number of lengths.
  void set_state(const std::optional<ContextGame::State>& state, const std::string& origin);

 private:
  double imbalance(Communicator& group) const;

  bool on_;
  int64_t every_;
  ContextGame game_;
  double busy_seconds_ = 0;  ///< of this rank since the last update
};

}  // namespace longhaul
