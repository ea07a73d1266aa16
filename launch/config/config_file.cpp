#include "launch/config/config_file.h"

#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <sstream>

#include "kernels/error.h"

namespace longhaul {
namespace {

namespace options = boost::program_options;
constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";
constexpr const char* kWhiteSpace = " \t\r";

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

void check_characters(const std::string& line, const std::string& place) {
  for (const char letter : line) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool control = (byte < 0x20 && letter != '\t' && letter != '\r') || byte == 0x7F;
    if (control) throw user_error("{}: control character 0x{:02x}; the file must be plain text", place, byte);
  }
}

/// Boost.Program_options reads one line at a time, because it reports no line numbers for whole files.
ConfigEntry read_line(const std::string& section, const std::string& line, const std::string& place) {
  std::istringstream stream(line);
  std::vector<options::option> found;
  try {
    found = options::parse_config_file(stream, options::options_description(), true).options;
  } catch (const options::error&) {
    throw user_error("{}: expected 'key = value' or '[section]', found '{}'", place, line);
  }
  if (found.size() != 1 || found[0].string_key.empty()) {
    throw user_error("{}: expected 'key = value' or '[section]', found '{}'", place, line);
  }
  ConfigEntry entry{section, trimmed(found[0].string_key), trimmed(found[0].value.at(0)), 0};
  if (section.empty()) {
    throw user_error("{}: key '{}' stands before any [section]; put it below one, such as [train]", place, entry.name);
  }
  if (entry.value.empty()) {
    throw user_error("{}: [{}] {} has no value; write one, or delete the line for the default", place, section,
                     entry.name);
  }
  if (entry.value.find(" ;") != std::string::npos) {
    throw user_error("{}: [{}] {}: found '{}'; comments after a value begin with '#'", place, section, entry.name,
                     entry.value);
  }
  return entry;
}

std::string read_section(const std::string& line, const std::string& place) {
  const std::string name = line.size() > 2 ? trimmed(line.substr(1, line.size() - 2)) : "";
  if (line.back() != ']' || name.empty()) throw user_error("{}: expected '[section]', found '{}'", place, line);
  return name;
}

}  // namespace

std::vector<ConfigEntry> read_config_text(const std::string& text, const std::string& name) {
  std::vector<ConfigEntry> entries;
  std::istringstream stream(text.rfind(kByteOrderMark, 0) == 0 ? text.substr(3) : text);
  std::string section, raw;
  for (int number = 1; std::getline(stream, raw); ++number) {
    const std::string place = fmt::format("{}:{}", name, number);
    check_characters(raw, place);
    const std::string line = trimmed(raw.substr(0, raw.find('#')));
    if (line.empty() || line[0] == ';') continue;
    if (line[0] == '[') {
      section = read_section(line, place);
      continue;
    }
    entries.push_back(read_line(section, line, place));
    entries.back().line = number;
  }
  return entries;
}

ConfigEntry read_override(const std::string& word) {
  const size_t equals = word.find('=');
  const size_t dot = word.substr(0, equals).find('.');
  if (equals == std::string::npos || dot == std::string::npos) {
    throw user_error("--set {}: expected section.key=value, such as train.steps=200", word);
  }
  ConfigEntry entry{trimmed(word.substr(0, dot)), trimmed(word.substr(dot + 1, equals - dot - 1)),
                    trimmed(word.substr(equals + 1)), 0};
  if (entry.value.empty()) throw user_error("--set {}: {} has no value", word, entry.key());
  return entry;
}

}  // namespace longhaul
