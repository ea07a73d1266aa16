// Strict reading of configuration values. Every error is a user error that names the key, the text found and what was
// expected.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace longhaul {

/// Decimal digits with an optional sign; 1e9, 1_000, 0x10 and 3.0 are refused.
int64_t parse_integer(const std::string& key, const std::string& text, int64_t least = INT64_MIN,
                      int64_t most = INT64_MAX);
/// 1e-4, 1E-4, 1.e-4, .0001, -2, +3; refused: 1_000, nan, inf, hexadecimal, anything that overflows.
double parse_number(const std::string& key, const std::string& text,
                    double least = std::numeric_limits<double>::lowest(),
                    double most = std::numeric_limits<double>::max());
/// true or false; nothing else.
bool parse_boolean(const std::string& key, const std::string& text);
/// One of `choices`.
std::string parse_choice(const std::string& key, const std::string& text, const std::vector<std::string>& choices);
/// The shortest decimal that reads back to the same double: "0.0003", "1e-08".
std::string number_text(double value);

}  // namespace longhaul
