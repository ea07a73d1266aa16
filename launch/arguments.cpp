#include "launch/arguments.h"

#include <algorithm>

#include "kernels/error.h"
#include "launch/config/nearest_name.h"
#include "launch/config/value_parser.h"

namespace longhaul {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> plain_names(const ArgumentSpec& spec) {
  std::vector<std::string> names;
  for (std::string name : spec.options) {
    if (name.back() == '=') name.pop_back();
    names.push_back("--" + name);
  }
  return names;
}

}  // namespace

Arguments::Arguments(const std::string& command, const std::vector<std::string>& words, const ArgumentSpec& spec)
    : command_(command) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      operands_.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name =
        word.rfind("--", 0) == 0 ? word.substr(2, equals == std::string::npos ? equals : equals - 2) : "";
    const bool takes_value = contains(spec.options, name + "=");
    if (!takes_value && !contains(spec.options, name)) {
      const std::string written = word.substr(0, equals);
      throw user_error("longhaul {}: unknown option '{}'{}", command, written,
                       did_you_mean(written, plain_names(spec)));
    }
    std::string value;
    if (takes_value && equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (takes_value) {
      if (++i == words.size()) throw user_error("longhaul {}: option --{} needs a value", command, name);
      value = words[i];
    } else if (equals != std::string::npos) {
      throw user_error("longhaul {}: option --{} takes no value, found '{}'", command, name, word);
    }
    if (has(name) && !contains(spec.repeatable, name))
      throw user_error("longhaul {}: option --{} is given twice", command, name);
    values_[name].push_back(value);
  }
  const int count = static_cast<int>(operands_.size());
  if (count > spec.most_operands) {
    throw user_error("longhaul {}: unexpected word '{}'; see `longhaul {} --help`", command,
                     operands_[static_cast<size_t>(spec.most_operands)], command);
  }
  if (count < spec.least_operands)
    throw user_error("longhaul {}: too few words; see `longhaul {} --help`", command, command);
}

std::optional<std::string> Arguments::find(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

std::string Arguments::text(const std::string& name) const {
  const auto value = find(name);
  if (!value) throw user_error("longhaul {} needs --{}; see `longhaul {} --help`", command_, name, command_);
  return *value;
}

std::string Arguments::text(const std::string& name, const std::string& fallback) const {
  return find(name).value_or(fallback);
}

int64_t Arguments::integer(const std::string& name, int64_t fallback, int64_t least) const {
  const auto value = find(name);
  return value ? parse_integer("--" + name, *value, least, INT64_MAX) : fallback;
}

double Arguments::number(const std::string& name, double fallback) const {
  const auto value = find(name);
  return value ? parse_number("--" + name, *value) : fallback;
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

}  // namespace longhaul
