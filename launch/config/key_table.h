// The single place where every configuration key is defined: name, type, default, help.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/config/configuration.h"

namespace longhaul {

struct ConfigKey {
  std::string section, name;
  std::string type;  ///< "whole number >= 1", "number in [0, 1]", "true or false", "text", "f32 or bf16"
  std::string help;
  /// A resumed run must have the value of its checkpoint: the key decides shapes, the data order or the state's layout.
  bool fixed = false;
  /// Reads `value` into the configuration; user_error "section.key: ..." for a wrong type or range.
  std::function<void(Configuration&, const std::string& value)> set;
  std::function<std::string(const Configuration&)> get;

  std::string key() const { return section + "." + name; }
  std::string default_value() const { return get(Configuration{}); }
};

const std::vector<ConfigKey>& key_table();
/// Its part in model_keys.cpp: [model], [gate], [rpa]; `fixed` is not set yet.
std::vector<ConfigKey> keys_of_the_model();
std::vector<std::string> section_names();

/// docs/configuration.md's tables, one per section.
std::string key_table_markdown();

}  // namespace longhaul
