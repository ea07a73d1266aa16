#include "launch/config/load_configuration.h"

#include <algorithm>

#include "core/io/checksum.h"
#include "core/io/file.h"
#include "kernels/error.h"
#include "launch/config/config_file.h"
#include "launch/config/key_table.h"
#include "launch/config/nearest_name.h"

namespace longhaul {
namespace {

constexpr const char* kCommandLine = "command line";

const ConfigKey* find_key(const std::string& section, const std::string& name) {
  for (const ConfigKey& key : key_table()) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

std::vector<std::string> names_in(const std::string& section) {
  std::vector<std::string> names;
  for (const ConfigKey& key : key_table()) {
    if (key.section == section) names.push_back(key.name);
  }
  return names;
}

/// Names that other programs give to our keys.
const std::map<std::string, std::string> kNamesElsewhere = {
    {"lr", "schedule.learning_rate"},
    {"max_lr", "schedule.learning_rate"},
    {"min_lr", "schedule.floor"},
    {"num_epochs", "train.steps"},
    {"epochs", "train.steps"},
    {"max_steps", "train.steps"},
    {"max_iters", "train.steps"},
    {"train_iters", "train.steps"},
    {"batch_size", "train.rows_per_slot"},
    {"micro_batch_size", "train.rows_per_slot"},
    {"gradient_accumulation_steps", "train.slots"},
    {"grad_clip", "optimizer.clip_norm"},
    {"max_grad_norm", "optimizer.clip_norm"},
    {"seq_len", "data.context"},
    {"sequence_length", "data.context"},
    {"block_size", "data.context"},
    {"hidden_size", "model.d_model"},
    {"n_embd", "model.d_model"},
    {"num_layers", "model.n_layer"},
    {"num_heads", "model.n_head"},
    {"save_interval", "checkpoint.every"},
    {"eval_interval", "validation.every"},
    {"log_interval", "metrics.every"},
    {"out_dir", "train.run_dir"},
    {"output_dir", "train.run_dir"},
};

/// The hint of an unknown key: nearest in its section, else the section where it belongs, else the nearest of all.
std::string key_hint(const ConfigEntry& entry) {
  std::vector<std::string> all;
  for (const ConfigKey& key : key_table()) {
    if (key.name == entry.name) return fmt::format("; it belongs in [{}]", key.section);
    all.push_back(key.key());
  }
  const std::string here = nearest_name(entry.name, names_in(entry.section));
  if (!here.empty()) return fmt::format("; did you mean '{}'?", here);
  std::string folded = entry.name;
  std::replace(folded.begin(), folded.end(), '-', '_');
  const auto elsewhere = kNamesElsewhere.find(folded);
  if (elsewhere != kNamesElsewhere.end()) return fmt::format("; did you mean '{}'?", elsewhere->second);
  std::string best;
  int best_distance = 3;
  for (const ConfigKey& key : key_table()) {
    const int distance = edit_distance(entry.name, key.name);
    if (distance < best_distance) {
      best = fmt::format("; did you mean '{}' of [{}]?", key.name, key.section);
      best_distance = distance;
    }
  }
  if (!best.empty()) return best;
  const std::string anywhere = nearest_name(entry.key(), all);
  return anywhere.empty() ? "; `longhaul config --keys` lists the keys" : fmt::format("; did you mean '{}'?", anywhere);
}

const ConfigKey& require_key(const ConfigEntry& entry, const std::string& place) {
  const std::vector<std::string> sections = section_names();
  if (std::find(sections.begin(), sections.end(), entry.section) == sections.end()) {
    throw user_error("{}: unknown section [{}] of key '{}'{}", place, entry.section, entry.name,
                     did_you_mean(entry.section, sections));
  }
  const ConfigKey* key = find_key(entry.section, entry.name);
  if (!key) throw user_error("{}: [{}] has no key '{}'{}", place, entry.section, entry.name, key_hint(entry));
  return *key;
}

void apply(ResolvedConfiguration& resolved, const ConfigEntry& entry, const std::string& place,
           const std::string& origin) {
  const ConfigKey& key = require_key(entry, place);
  try {
    key.set(resolved.values, entry.value);
  } catch (const Error& error) {
    throw error.within(place);
  }
  resolved.origin[entry.key()] = origin;
}

}  // namespace

ResolvedConfiguration parse_configuration(const std::string& text, const std::string& name,
                                          const std::vector<std::string>& overrides) {
  ResolvedConfiguration resolved;
  for (const ConfigKey& key : key_table()) resolved.origin[key.key()] = "default";
  std::map<std::string, int> seen;
  for (const ConfigEntry& entry : read_config_text(text, name)) {
    const std::string place = fmt::format("{}:{}", name, entry.line);
    const auto [first, is_new] = seen.emplace(entry.key(), entry.line);
    if (!is_new) {
      throw user_error("{}: [{}] {} is given twice (first in line {}); keep one", place, entry.section, entry.name,
                       first->second);
    }
    apply(resolved, entry, place, place);
  }
  for (const std::string& word : overrides) apply(resolved, read_override(word), "--set " + word, kCommandLine);
  if (resolved.values.data.context == 0) {
    resolved.values.data.context = resolved.values.model.context_length;
    resolved.origin["data.context"] = "model.context_length";
  }
  resolved.refresh_text();
  return resolved;
}

ResolvedConfiguration load_configuration(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  if (file.empty()) return parse_configuration("", "", overrides);
  if (std::filesystem::is_directory(file))
    throw user_error("{}: expected a configuration file, found a directory", file.string());
  if (!std::filesystem::exists(file)) throw user_error("{}: no such configuration file", file.string());
  return parse_configuration(read_file(file), file.string(), overrides);
}

void ResolvedConfiguration::refresh_text() {
  for (const ConfigKey& key : key_table()) text[key.key()] = key.get(values);
}

std::string ResolvedConfiguration::ini() const {
  std::string result;
  for (const std::string& section : section_names()) {
    result += fmt::format("{}[{}]\n", result.empty() ? "" : "\n", section);
    for (const ConfigKey& key : key_table()) {
      if (key.section != section) continue;
      const std::string& value = text.at(key.key());
      result += value.empty() ? fmt::format("# {} is empty\n", key.name) : fmt::format("{} = {}\n", key.name, value);
    }
  }
  return result;
}

std::string ResolvedConfiguration::hash() const {
  Checksum checksum;
  for (const auto& [key, value] : text) checksum.update(fmt::format("{}={}\n", key, value));
  return checksum.hex();
}

std::vector<ConfigurationDifference> differences(const std::map<std::string, std::string>& ours,
                                                 const std::map<std::string, std::string>& theirs) {
  std::map<std::string, std::string> all = ours;
  all.insert(theirs.begin(), theirs.end());
  std::vector<ConfigurationDifference> result;
  for (const auto& [key, unused] : all) {
    const auto mine = ours.find(key), other = theirs.find(key);
    const std::string a = mine == ours.end() ? "(absent)" : mine->second;
    const std::string b = other == theirs.end() ? "(absent)" : other->second;
    if (a != b) result.push_back({key, a, b});
  }
  return result;
}

}  // namespace longhaul
