// How a row of the key table is made from a member of the configuration: one function for each type of value.
#pragma once

#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/error.h"
#include "launch/config/key_table.h"
#include "launch/config/value_parser.h"

namespace longhaul {

inline constexpr int64_t kMostInteger = std::numeric_limits<int64_t>::max();
inline constexpr double kMostNumber = std::numeric_limits<double>::max();

struct KeyRange {
  double least = 0, most = kMostNumber;
};

/// A section is a member of Configuration, or one of the model that stands in a section of its own.
template <auto Section, typename C>
auto& section_of(C& configuration) {
  if constexpr (std::is_same_v<decltype(Section), GateConfig ModelConfig::*> ||
                std::is_same_v<decltype(Section), RpaConfig ModelConfig::*>) {
    return configuration.model.*Section;
  } else {
    return configuration.*Section;
  }
}

template <auto Section>
const char* section_name() {
  if constexpr (std::is_same_v<decltype(Section), GateConfig ModelConfig::*>) return "gate";
  if constexpr (std::is_same_v<decltype(Section), RpaConfig ModelConfig::*>) return "rpa";
  if constexpr (std::is_same_v<decltype(Section), ModelConfig Configuration::*>) return "model";
  if constexpr (std::is_same_v<decltype(Section), DataConfig Configuration::*>) return "data";
  if constexpr (std::is_same_v<decltype(Section), TrainConfig Configuration::*>) return "train";
  if constexpr (std::is_same_v<decltype(Section), OptimizerConfig Configuration::*>) return "optimizer";
  if constexpr (std::is_same_v<decltype(Section), ScheduleConfig Configuration::*>) return "schedule";
  if constexpr (std::is_same_v<decltype(Section), CheckpointConfig Configuration::*>) return "checkpoint";
  if constexpr (std::is_same_v<decltype(Section), ValidationConfig Configuration::*>) return "validation";
  if constexpr (std::is_same_v<decltype(Section), SwaConfig Configuration::*>) return "swa";
  if constexpr (std::is_same_v<decltype(Section), GameConfig Configuration::*>) return "game";
  if constexpr (std::is_same_v<decltype(Section), GuardianConfig Configuration::*>) return "guardian";
  if constexpr (std::is_same_v<decltype(Section), TemperatureConfig Configuration::*>) return "temperature";
  if constexpr (std::is_same_v<decltype(Section), ParallelConfig Configuration::*>) return "parallel";
  if constexpr (std::is_same_v<decltype(Section), RuntimeConfig Configuration::*>) return "runtime";
  if constexpr (std::is_same_v<decltype(Section), MetricsConfig Configuration::*>) return "metrics";
}

/// parse(key, text) gives a value of the field, show(value) its text.
template <auto Section, auto Field, typename Parse, typename Show>
ConfigKey row(const char* name, const std::string& type, const char* help, Parse parse, Show show) {
  const std::string key = std::string(section_name<Section>()) + "." + name;
  return {section_name<Section>(),
          name,
          type,
          help,
          false,
          [=](Configuration& c, const std::string& text) { section_of<Section>(c).*Field = parse(key, text); },
          [=](const Configuration& c) { return show(section_of<Section>(c).*Field); }};
}

template <auto Section, auto Field>
ConfigKey integer(const char* name, int64_t least, const char* help, int64_t most = kMostInteger) {
  const std::string type = most == kMostInteger ? fmt::format("whole number >= {}", least)
                                                : fmt::format("whole number in [{}, {}]", least, most);
  return row<Section, Field>(
      name, type, help,
      [=](const std::string& key, const std::string& text) { return parse_integer(key, text, least, most); },
      [](int64_t value) { return std::to_string(value); });
}

template <auto Section, auto Field>
ConfigKey number(const char* name, KeyRange range, const char* help) {
  const std::string type = range.most == kMostNumber
                               ? fmt::format("number >= {}", number_text(range.least))
                               : fmt::format("number in [{}, {}]", number_text(range.least), number_text(range.most));
  return row<Section, Field>(
      name, type, help,
      [=](const std::string& key, const std::string& text) { return parse_number(key, text, range.least, range.most); },
      number_text);
}

template <auto Section, auto Field>
ConfigKey boolean(const char* name, const char* help) {
  return row<Section, Field>(name, "true or false", help, parse_boolean,
                             [](bool value) { return std::string(value ? "true" : "false"); });
}

template <auto Section, auto Field>
ConfigKey text(const char* name, const char* help) {
  return row<Section, Field>(
      name, "text", help, [](const std::string&, const std::string& text) { return text; },
      [](const std::string& value) { return value; });
}

template <auto Section, auto Field>
ConfigKey choice(const char* name, const std::vector<std::string>& choices, const char* help) {
  std::string type;
  for (const std::string& item : choices) type += (type.empty() ? "" : " or ") + item;
  return row<Section, Field>(
      name, type, help,
      [=](const std::string& key, const std::string& text) { return parse_choice(key, text, choices); },
      [](const std::string& value) { return value; });
}

template <auto Section, auto Field>
ConfigKey seed_key(const char* help) {
  return row<Section, Field>(
      "seed", "whole number >= 0", help,
      [](const std::string& key, const std::string& text) {
        return static_cast<uint64_t>(parse_integer(key, text, 0));
      },
      [](uint64_t value) { return std::to_string(value); });
}

}  // namespace longhaul
