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

template <auto Section, auto Field>
ConfigKey integer(const char* name, int64_t least, const char* help, int64_t most = kMostInteger) {
  const std::string key = std::string(section_name<Section>()) + "." + name;
  const std::string type = most == kMostInteger ? fmt::format("whole number >= {}", least)
                                                : fmt::format("whole number in [{}, {}]", least, most);
  return {section_name<Section>(),
          name,
          type,
          help,
          false,
          [=](Configuration& c, const std::string& value) {
            section_of<Section>(c).*Field = parse_integer(key, value, least, most);
          },
          [](const Configuration& c) { return std::to_string(section_of<Section>(c).*Field); }};
}

template <auto Section, auto Field>
ConfigKey number(const char* name, KeyRange range, const char* help) {
  const std::string key = std::string(section_name<Section>()) + "." + name;
  const std::string type = range.most == kMostNumber
                               ? fmt::format("number >= {}", number_text(range.least))
                               : fmt::format("number in [{}, {}]", number_text(range.least), number_text(range.most));
  return {section_name<Section>(),
          name,
          type,
          help,
          false,
          [=](Configuration& c, const std::string& value) {
            section_of<Section>(c).*Field = parse_number(key, value, range.least, range.most);
          },
          [](const Configuration& c) { return number_text(section_of<Section>(c).*Field); }};
}

template <auto Section, auto Field>
ConfigKey boolean(const char* name, const char* help) {
  const std::string key = std::string(section_name<Section>()) + "." + name;
  return {
      section_name<Section>(),
      name,
      "true or false",
      help,
      false,
      [=](Configuration& c, const std::string& value) { section_of<Section>(c).*Field = parse_boolean(key, value); },
      [](const Configuration& c) { return std::string(section_of<Section>(c).*Field ? "true" : "false"); }};
}

template <auto Section, auto Field>
ConfigKey text(const char* name, const char* help) {
  return {section_name<Section>(),
          name,
          "text",
          help,
          false,
          [](Configuration& c, const std::string& value) { section_of<Section>(c).*Field = value; },
          [](const Configuration& c) { return section_of<Section>(c).*Field; }};
}

template <auto Section, auto Field>
ConfigKey choice(const char* name, const std::vector<std::string>& choices, const char* help) {
  const std::string key = std::string(section_name<Section>()) + "." + name;
  std::string type;
  for (const std::string& item : choices) type += (type.empty() ? "" : " or ") + item;
  return {section_name<Section>(),
          name,
          type,
          help,
          false,
          [=](Configuration& c, const std::string& value) {
            section_of<Section>(c).*Field = parse_choice(key, value, choices);
          },
          [](const Configuration& c) { return section_of<Section>(c).*Field; }};
}

template <auto Section, auto Field>
ConfigKey seed_key(const char* help) {
  const std::string key = std::string(section_name<Section>()) + ".seed";
  return {section_name<Section>(),
          "seed",
          "whole number >= 0",
          help,
          false,
          [=](Configuration& c, const std::string& value) {
            section_of<Section>(c).*Field = static_cast<uint64_t>(parse_integer(key, value, 0));
          },
          [](const Configuration& c) { return std::to_string(section_of<Section>(c).*Field); }};
}

}  // namespace longhaul
