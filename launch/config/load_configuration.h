// From a file and --set overrides to a resolved configuration that knows where every value came from.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/config/configuration.h"

namespace longhaul {

/// A configuration with the origin of each value.
struct ResolvedConfiguration {
  Configuration values;
  std::map<std::string, std::string> text;    ///< "section.key" -> value as printed, every key of the table
  std::map<std::string, std::string> origin;  ///< "section.key" -> "default" | "file.ini:12" | "command line"
  /// Fills `text` from `values` again, after a program has changed one (the vocabulary taken from the data).
  void refresh_text();
  /// The whole configuration as an INI file that loads to the same values.
  std::string ini() const;
  /// Checksum of the values (not of their origins).
  std::string hash() const;
};

/// Reads `file` (empty: all defaults) and applies "section.key=value" overrides in order; the last one wins. user_error
/// with file, line, key and the nearest valid name for anything unknown, misplaced, duplicate, empty or of the wrong
/// type.
ResolvedConfiguration load_configuration(const std::filesystem::path& file,
                                         const std::vector<std::string>& overrides = {});
/// The same from text; `name` stands for the file in messages.
ResolvedConfiguration parse_configuration(const std::string& text, const std::string& name,
                                          const std::vector<std::string>& overrides = {});

/// Keys (with both values) in which two resolved configurations differ: "model.n_layer (2, was 3)".
struct ConfigurationDifference {
  std::string key, ours, theirs;
};
std::vector<ConfigurationDifference> differences(const std::map<std::string, std::string>& ours,
                                                 const std::map<std::string, std::string>& theirs);

}  // namespace longhaul
