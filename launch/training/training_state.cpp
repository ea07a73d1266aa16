#include "launch/training/training_state.h"

#include <nlohmann/json.hpp>
#include <set>

#include "kernels/error.h"
#include "launch/config/key_table.h"

namespace longhaul {

namespace {

nlohmann::json game_to_json(const ContextGame::State& state) {
  nlohmann::json json = {{"updates", state.updates}};
  for (const ContextGame::LengthState& length : state.lengths) {
    json["lengths"].push_back({{"log_weight", length.log_weight},
                               {"utility", length.utility},
                               {"measured", length.measured},
                               {"tokens", length.sums.tokens},
                               {"loss", length.sums.loss},
                               {"saturation", length.sums.saturation},
                               {"entropy", length.sums.entropy}});
  }
  return json;
}

ContextGame::State game_from_json(const nlohmann::json& json) {
  ContextGame::State state;
  state.updates = json.at("updates").get<int64_t>();
  for (const nlohmann::json& length : json.at("lengths")) {
    state.lengths.push_back({.log_weight = length.at("log_weight").get<double>(),
                             .utility = length.at("utility").get<double>(),
                             .measured = length.at("measured").get<bool>(),
                             .sums = {.tokens = length.at("tokens").get<int64_t>(),
                                      .loss = length.at("loss").get<double>(),
                                      .saturation = length.at("saturation").get<double>(),
                                      .entropy = length.at("entropy").get<double>()}});
  }
  return state;
}

}  // namespace

std::string ControllerState::to_json() const {
  nlohmann::json json = {{"updates", updates},
                         {"spike_guard",
                          {{"mean_norm", guard.mean_norm},
                           {"applied", guard.applied},
                           {"consecutive", guard.consecutive},
                           {"skipped", guard.skipped}}},
                         {"data", identity.data},
                         {"tokenizer", identity.tokenizer}};
  for (const EntropyGate::State& gate : gates) {
    json["gates"].push_back({{"mean", gate.mean}, {"deviation", gate.deviation}});
  }
  if (swa) {
    json["swa"] = {
        {"entered", swa->entered}, {"entry", swa->entry}, {"snapshots", swa->snapshots}, {"data", swa->data}};
  }
  if (game) json["context_game"] = game_to_json(*game);
  if (prior) json["prior"] = prior_to_json(*prior);
  if (prior_control) json["prior_control"] = control_to_json(*prior_control);
  return json.dump();
}

ControllerState ControllerState::from_json(const std::string& text, const std::string& origin) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    const nlohmann::json& guard = json.at("spike_guard");
    ControllerState state;
    state.updates = json.at("updates").get<int64_t>();
    state.guard = {guard.at("mean_norm").get<double>(), guard.at("applied").get<int64_t>(),
                   guard.at("consecutive").get<int64_t>(), guard.at("skipped").get<int64_t>()};
    state.identity = {json.at("data").get<std::string>(), json.at("tokenizer").get<std::string>()};
    if (json.contains("gates")) {
      for (const nlohmann::json& gate : json["gates"]) {
        state.gates.push_back({gate.at("mean").get<double>(), gate.at("deviation").get<double>()});
      }
    }
    if (json.contains("swa")) {
      const nlohmann::json& swa = json["swa"];
      state.swa = {swa.at("entered").get<bool>(), swa.at("entry").get<double>(), swa.at("snapshots").get<int64_t>(),
                   swa.at("data").get<std::string>()};
    }
    if (json.contains("context_game")) state.game = game_from_json(json["context_game"]);
    if (json.contains("prior")) state.prior = prior_from_json(json["prior"]);
    if (json.contains("prior_control")) state.prior_control = control_from_json(json["prior_control"]);
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw user_error("{}: the controller state cannot be read ({}); it was written by another version", origin,
                     error.what());
  } catch (const Error& error) {
    throw error.within(origin);
  }
}

std::string BestWeights::to_json() const {
  if (weights.empty()) return "";
  return nlohmann::json{{"weights", weights}, {"cross_entropy", cross_entropy}, {"step", step}}.dump();
}

BestWeights BestWeights::from_json(const std::string& text, const std::string& origin) {
  if (text.empty()) return {};
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    return {json.at("weights").get<std::string>(), json.at("cross_entropy").get<double>(),
            json.at("step").get<int64_t>()};
  } catch (const nlohmann::json::exception& error) {
    throw user_error("{}: the mark of the best weights cannot be read ({}); it was written by another version", origin,
                     error.what());
  }
}

std::vector<EntropyGate::State> gate_states(const LanguageModel& model) {
  std::vector<EntropyGate::State> states;
  for (const EntropyGate& gate : model.gates()) states.push_back(gate.state());
  return states;
}

void set_gate_states(LanguageModel& model, const std::vector<EntropyGate::State>& states, const std::string& origin) {
  const std::span<EntropyGate> gates = model.gates();
  if (states.size() != gates.size()) {
    throw user_error("{}: holds the state of {} entropy gates, expected {}; it was written by another version or model",
                     origin, states.size(), gates.size());
  }
  for (size_t gate = 0; gate < gates.size(); ++gate) gates[gate].set_state(states[gate]);
}

std::vector<std::string> check_resumable(const ResolvedConfiguration& now, const DataIdentity& identity,
                                         const CheckpointReader& checkpoint) {
  const std::string origin = checkpoint.directory().string();
  const CheckpointExtras& extras = checkpoint.manifest().extras;
  ResolvedConfiguration then = parse_configuration(extras.configuration, origin + " (configuration)");
  then.values.model = resolved(then.values.model);  // keys that are newer than the checkpoint stand for what it did
  then.refresh_text();
  std::vector<std::string> changed;
  for (const ConfigurationDifference& difference : differences(now.text, then.text)) {
    for (const ConfigKey& key : key_table()) {
      // Datasets may have moved; their contents are compared below.
      if (key.key() != difference.key || key.key() == "data.datasets") continue;
      if (key.fixed) {
        throw user_error(
            "{} is {} but the checkpoint {} was trained with {}; use that value, another train.run_dir, or --resume "
            "none",
            difference.key, difference.ours, origin, difference.theirs);
      }
      changed.push_back(fmt::format("{} = {} (was {})", difference.key, difference.ours, difference.theirs));
    }
  }
  const DataIdentity before = ControllerState::from_json(extras.controller_state, origin).identity;
  if (before.tokenizer != identity.tokenizer) {
    throw user_error(
        "data.datasets: tokenizer {} differs from {} of the checkpoint {}; tokenize with the same tokenizer",
        identity.tokenizer, before.tokenizer, origin);
  }
  if (before.data != identity.data) {
    throw user_error(
        "data.datasets: contents or weights differ from those of the checkpoint {}; use the same datasets, "
        "or checkpoint.init_from with a new train.run_dir",
        origin);
  }
  return changed;
}

void load_optimizer(Communicator& group, ShardedOptimizer& optimizer, CheckpointReader& checkpoint, int64_t updates) {
  checkpoint.verify_together(group);
  std::set<std::string> kinds;
  for (const auto& [name, entry] : checkpoint.manifest().tensors) kinds.insert(name.substr(0, name.find('/')));
  const std::string weights = kinds.count("master") > 0 ? "master/" : "parameter/";
  optimizer.load(updates, [&](const TensorSlice& slice) {
    const bool is_average = slice.kind == name_of(WeightAverage::ema) || slice.kind == name_of(WeightAverage::swa);
    const bool missing = is_average && kinds.count(slice.kind) == 0;
    const std::string name = missing ? weights + slice.name : slice.key();
    checkpoint.read(name, slice.offset, slice.count, slice.dtype, slice.data);
  });
}

}  // namespace longhaul
