// The state of the controllers of the prior as JSON.
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "launch/training/prior_control.h"

namespace longhaul {
namespace {

using Json = nlohmann::json;

Json to_json(const Guardian::State& state) {
  return {{"parameters", state.policy.parameters},
          {"first_moments", state.policy.first_moments},
          {"second_moments", state.policy.second_moments},
          {"updates", state.policy.updates},
          {"tau", state.tau},
          {"lambda_delta", state.lambda_delta},
          {"lambda_saturation", state.lambda_saturation},
          {"actions", state.actions},
          {"waiting", state.waiting},
          {"features", state.features},
          {"action", state.action},
          {"cross_entropy", state.cross_entropy},
          {"reward_mean", state.reward_mean},
          {"rewards", state.rewards},
          {"data", state.data}};
}

Guardian::State guardian_from_json(const Json& json) {
  Guardian::State state;
  json.at("parameters").get_to(state.policy.parameters);
  json.at("first_moments").get_to(state.policy.first_moments);
  json.at("second_moments").get_to(state.policy.second_moments);
  json.at("updates").get_to(state.policy.updates);
  json.at("tau").get_to(state.tau);
  json.at("lambda_delta").get_to(state.lambda_delta);
  json.at("lambda_saturation").get_to(state.lambda_saturation);
  json.at("actions").get_to(state.actions);
  json.at("waiting").get_to(state.waiting);
  json.at("features").get_to(state.features);
  json.at("action").get_to(state.action);
  json.at("cross_entropy").get_to(state.cross_entropy);
  json.at("reward_mean").get_to(state.reward_mean);
  json.at("rewards").get_to(state.rewards);
  json.at("data").get_to(state.data);
  return state;
}

Json to_json(const TemperatureSchedule::State& state) {
  return {{"nudges", state.nudges}, {"cross_entropy", state.cross_entropy}, {"data", state.data}};
}

TemperatureSchedule::State schedule_from_json(const Json& json) {
  return {json.at("nudges").get<double>(), json.at("cross_entropy").get<double>(), json.at("data").get<std::string>()};
}

Json to_json(const LayerMemberships& layers) {
  Json json = Json::array();
  for (const ops::MembershipStatistics& layer : layers) {
    json.push_back({{"tokens", layer.tokens},
                    {"saturated", layer.saturated},
                    {"entropy", layer.entropy},
                    {"sums", std::vector(layer.sums.begin(), layer.sums.begin() + layer.regimes)}});
  }
  return json;
}

LayerMemberships memberships_from_json(const Json& json) {
  LayerMemberships layers;
  for (const Json& stored : json) {
    ops::MembershipStatistics layer;
    const std::vector<double> sums = stored.at("sums").get<std::vector<double>>();
    if (sums.size() > layer.sums.size()) throw user_error("statistics of {} regimes cannot be read", sums.size());
    layer.regimes = static_cast<int64_t>(sums.size());
    stored.at("tokens").get_to(layer.tokens);
    stored.at("saturated").get_to(layer.saturated);
    stored.at("entropy").get_to(layer.entropy);
    std::copy(sums.begin(), sums.end(), layer.sums.begin());
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace

nlohmann::json control_to_json(const PriorControl::State& state) {
  Json json = {{"played", to_json(state.played)}, {"gates", state.gates}};
  if (state.guardian) json["guardian"] = to_json(*state.guardian);
  if (state.schedule) json["temperature"] = to_json(*state.schedule);
  return json;
}

PriorControl::State control_from_json(const nlohmann::json& json) {
  PriorControl::State state;
  if (json.contains("guardian")) state.guardian = guardian_from_json(json["guardian"]);
  if (json.contains("temperature")) state.schedule = schedule_from_json(json["temperature"]);
  state.played = memberships_from_json(json.at("played"));
  json.at("gates").get_to(state.gates);
  return state;
}

}  // namespace longhaul
