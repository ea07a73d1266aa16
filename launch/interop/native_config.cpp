#include "launch/interop/native_config.h"

#include "launch/config/key_table.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSections[] = {"model", "gate", "rpa"};

/// Numbers and truth values as such, everything else as text.
Json json_value(const std::string& text) {
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_number() || value.is_boolean() ? value : Json(text);
}

}  // namespace

Json native_config(const ModelConfig& config) {
  Configuration configuration;
  configuration.model = config;
  Json json = {{"architectures", {"Longhaul"}}, {"model_type", kNativeModelType}};
  for (const ConfigKey& key : key_table()) {
    const bool of_the_gate = key.section == "gate" && config.family == "amor";
    const bool of_the_prior = key.section == "rpa" && config.has_memberships();
    if ((key.section == "model" && key.fixed) || of_the_gate || of_the_prior) {
      json[key.section][key.name] = json_value(key.get(configuration));
    }
  }
  return json;
}

ModelConfig read_native_config(const JsonConfig& json) {
  Configuration configuration;
  for (const char* section : kSections) {
    const Json* values = json.find(section);
    if (!values) continue;
    if (!values->is_object()) throw json.wrong(section, *values, "an object");
    for (const auto& [name, value] : values->items()) {
      const auto is_key = [&](const ConfigKey& key) { return key.section == section && key.name == name; };
      const auto key = std::find_if(key_table().begin(), key_table().end(), is_key);
      if (key == key_table().end()) {
        throw user_error("{}: {}.{} is no key of the configuration", json.path().string(), section, name);
      }
      try {
        key->set(configuration, value.is_string() ? value.get<std::string>() : value.dump());
      } catch (const Error& error) {
        throw error.within(json.path().string());
      }
    }
  }
  return configuration.model;
}

}  // namespace longhaul
