// Typed access to the config.json of a model directory. Every error names file and key.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/error.h"

namespace longhaul {

/// A null counts as absent, as in transformers. Infinity, which Python writes and JSON does not know, reads as the text
/// "Infinity".
class JsonConfig {
 public:
  using Json = nlohmann::ordered_json;
  explicit JsonConfig(std::filesystem::path path);

  int64_t integer(const char* key, int64_t fallback) const;
  double number(const char* key, double fallback) const { return number(json_, key, fallback); }
  std::string text(const char* key, const std::string& fallback) const;
  bool boolean(const char* key, bool fallback) const;
  const Json* find(const char* key) const { return find(json_, key); }  ///< nullptr when absent

  /// user_error unless `key`, or when it is absent `fallback` (the library's default; for truth values the supported
  /// one), is as supported.
  void require(const char* key, bool supported) const;
  void require_text(const char* key, const std::vector<std::string>& supported, const std::string& fallback) const;
  void require_integer(const char* key, int64_t supported, int64_t fallback) const;
  void require_number(const char* key, double supported, double fallback) const;

  /// Base of the rotary angles, from the old key or from rope_parameters; scaled variants are refused.
  double rope_base() const;

  /// "FILE: KEY is FOUND; expected EXPECTED".
  Error wrong(const char* key, const Json& found, const std::string& expected) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  static const Json* find(const Json& object, const char* key);
  double number(const Json& object, const char* key, double fallback) const;

  std::filesystem::path path_;
  Json json_;
};

}  // namespace longhaul
