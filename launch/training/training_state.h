// What a checkpoint holds besides tensors, and how a run continues from one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/control/context_game.h"
#include "core/control/entropy_gate.h"
#include "core/control/selective_average.h"
#include "core/control/spike_guard.h"
#include "core/models/language_model.h"
#include "launch/config/load_configuration.h"
#include "launch/training/prior_control.h"
#include "launch/training/prior_state.h"
#include "parallel/checkpoint_reader.h"
#include "parallel/sharded_optimizer.h"

namespace longhaul {

/// Checksums of what the rows are made from; a run that continues must find the same.
struct DataIdentity {
  std::string data;       ///< data_fingerprint()
  std::string tokenizer;  ///< tokenizer fingerprint
};

/// The controllers' state as the JSON text a checkpoint keeps.
struct ControllerState {
  int64_t updates = 0;  ///< of the optimizer; skipped steps do not count
  SpikeGuard::State guard;
  DataIdentity identity;
  std::vector<EntropyGate::State> gates = {};  ///< by entropy gate; models without have none
  std::optional<SelectiveAverage::State> swa = {};
  std::optional<ContextGame::State> game = {};  ///< nothing where no lengths are chosen
  std::optional<PriorState> prior = {};         ///< nothing for models without memberships
  std::optional<PriorControl::State> prior_control = {};

  std::string to_json() const;
  static ControllerState from_json(const std::string& text, const std::string& origin);
};

/// Which of raw, ema and swa the last validation found best, as the JSON text beside the controllers' state. It is a
/// result: nothing in training depends on it, so it does not belong to the state.
struct BestWeights {
  std::string weights;  ///< "" before any validation
  double cross_entropy = 0;
  int64_t step = 0;

  std::string to_json() const;  ///< "" before any validation
  static BestWeights from_json(const std::string& text, const std::string& origin);
};

/// The states of a model's gates, and the way back: user_error naming `origin` when it has another number of gates.
std::vector<EntropyGate::State> gate_states(const LanguageModel& model);
void set_gate_states(LanguageModel& model, const std::vector<EntropyGate::State>& states, const std::string& origin);

/// Compares a run with the checkpoint it continues from. user_error naming the key and both values for one that must
/// match (model, data, slots, tokenizer, contents of the datasets); returns one line for every other key that changed.
std::vector<std::string> check_resumable(const ResolvedConfiguration& now, const DataIdentity& identity,
                                         const CheckpointReader& checkpoint);

/// Fills parameters, moments, master copy and averages. Collective. An average that the checkpoint lacks starts from
/// its parameters.
void load_optimizer(Communicator& group, ShardedOptimizer& optimizer, CheckpointReader& checkpoint, int64_t updates);

}  // namespace longhaul
