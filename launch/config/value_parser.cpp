#include "launch/config/value_parser.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "kernels/error.h"
#include "launch/config/nearest_name.h"

namespace longhaul {
namespace {

/// std::from_chars knows no leading '+'.
std::string without_plus(const std::string& text) {
  return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
}

}  // namespace

int64_t parse_integer(const std::string& key, const std::string& text, int64_t least, int64_t most) {
  const std::string digits = without_plus(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = end == digits.data() + digits.size() && !digits.empty();
  if (whole && error == std::errc::result_out_of_range) throw user_error("{}: {} does not fit 64 bits", key, text);
  if (!whole || error != std::errc()) throw user_error("{}: expected a whole number like 1000, found '{}'", key, text);
  if (value < least && most == INT64_MAX) throw user_error("{}: must be at least {}, found {}", key, least, text);
  if (value < least || value > most) throw user_error("{}: must lie in [{}, {}], found {}", key, least, most, text);
  return value;
}

double parse_number(const std::string& key, const std::string& text, double least, double most) {
  const std::string digits = without_plus(text);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = end == digits.data() + digits.size() && !digits.empty();
  if (whole && error == std::errc::result_out_of_range) throw user_error("{}: {} does not fit a double", key, text);
  if (!whole || error != std::errc() || !std::isfinite(value)) {
    throw user_error("{}: expected a finite number like 0.001 or 1e-3, found '{}'", key, text);
  }
  if (value < least && most == std::numeric_limits<double>::max()) {
    throw user_error("{}: must be at least {}, found {}", key, number_text(least), text);
  }
  if (value < least || value > most) {
    throw user_error("{}: must lie in [{}, {}], found {}", key, number_text(least), number_text(most), text);
  }
  return value;
}

bool parse_boolean(const std::string& key, const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw user_error("{}: expected true or false, found '{}'", key, text);
}

std::string parse_choice(const std::string& key, const std::string& text, const std::vector<std::string>& choices) {
  std::string list;
  for (const std::string& choice : choices) {
    if (text == choice) return text;
    list += (list.empty() ? "" : " or ") + choice;
  }
  throw user_error("{}: expected {}, found '{}'{}", key, list, text, did_you_mean(text, choices));
}

std::string number_text(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
}

}  // namespace longhaul
