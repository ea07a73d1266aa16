// The lexical side of configuration files and of --set: which text belongs to which key on which line.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

/// One "key = value" line, or one --set override (then line 0).
struct ConfigEntry {
  std::string section, name, value;
  int line = 0;
  std::string key() const { return section + "." + name; }
};

/// Reads INI text. A byte-order mark, CRLF line ends and tabs as white space are accepted; '#' starts a comment
/// anywhere, ';' only at the start of a line. user_error "file:line: ..." for a line that is neither section nor key =
/// value, an empty value, a key outside a section, a control character.
std::vector<ConfigEntry> read_config_text(const std::string& text, const std::string& name);

/// "section.key=value" of the command line.
ConfigEntry read_override(const std::string& word);

}  // namespace longhaul
