#include "launch/interop/json_config.h"

#include "core/io/file.h"
#include "launch/config/value_parser.h"

namespace longhaul {
namespace {

/// `text` with every bare Infinity in quotes.
std::string quote_infinities(std::string text) {
  const std::string word = "Infinity";
  for (size_t place = text.find(word); place != std::string::npos; place = text.find(word, place + 1)) {
    if (place > 0 && std::string(" \n\t[,:").find(text[place - 1]) == std::string::npos) continue;
    text.replace(place, word.size(), "\"" + word + "\"");
    place += word.size();
  }
  return text;
}

}  // namespace

JsonConfig::JsonConfig(std::filesystem::path path) : path_(std::move(path)) {
  try {
    json_ = Json::parse(quote_infinities(read_file(path_)));
  } catch (const Json::exception&) {
    throw user_error("{}: not valid JSON; fetch or write it again", path_.string());
  }
  if (!json_.is_object()) throw user_error("{}: expected a JSON object", path_.string());
}

int64_t JsonConfig::integer(const char* key, int64_t fallback) const {
  const Json* value = find(json_, key);
  if (!value) return fallback;
  if (!value->is_number_integer()) throw wrong(key, *value, "an integer");
  return value->get<int64_t>();
}

std::string JsonConfig::text(const char* key, const std::string& fallback) const {
  const Json* value = find(json_, key);
  if (!value) return fallback;
  if (!value->is_string()) throw wrong(key, *value, "a string");
  return value->get<std::string>();
}

bool JsonConfig::boolean(const char* key, bool fallback) const {
  const Json* value = find(json_, key);
  if (!value) return fallback;
  if (!value->is_boolean()) throw wrong(key, *value, "true or false");
  return value->get<bool>();
}

void JsonConfig::require(const char* key, bool supported) const {
  const bool found = boolean(key, supported);
  if (found != supported) throw wrong(key, found, supported ? "true" : "false");
}

void JsonConfig::require_text(const char* key, const std::vector<std::string>& supported,
                              const std::string& fallback) const {
  const std::string found = text(key, fallback);
  for (const std::string& value : supported) {
    if (found == value) return;
  }
  throw wrong(key, found, supported.front());
}

void JsonConfig::require_integer(const char* key, int64_t supported, int64_t fallback) const {
  const int64_t found = integer(key, fallback);
  if (found != supported) throw wrong(key, found, std::to_string(supported));
}

void JsonConfig::require_number(const char* key, double supported, double fallback) const {
  const double found = number(key, fallback);
  if (found != supported) throw wrong(key, found, number_text(supported));
}

double JsonConfig::rope_base() const {
  double base = number("rope_theta", 10000.0);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* parameters = find(json_, key);
    if (!parameters) continue;
    if (!parameters->is_object()) throw wrong(key, *parameters, "an object");
    for (const char* type : {"rope_type", "type"}) {
      const Json* value = find(*parameters, type);
      if (value && *value != "default") throw wrong(key, *value, "rope_type default (no scaling)");
    }
    base = number(*parameters, "rope_theta", base);
  }
  return base;
}

Error JsonConfig::wrong(const char* key, const Json& found, const std::string& expected) const {
  return user_error("{}: {} is {}; expected {}", path_.string(), key, found.dump(), expected);
}

const JsonConfig::Json* JsonConfig::find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

double JsonConfig::number(const Json& object, const char* key, double fallback) const {
  const Json* value = find(object, key);
  if (!value) return fallback;
  if (!value->is_number()) throw wrong(key, *value, "a number");
  return value->get<double>();
}

}  // namespace longhaul
