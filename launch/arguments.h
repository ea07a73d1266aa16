// The words of a subcommand's command line: options with their values, flags and operands.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace longhaul {

/// What a subcommand accepts. A name ends with '=' when the option takes a value: {"config=", "set=", "resume=",
/// "gradients"}. Values may be written "--steps 3" or "--steps=3"; an option may be repeated only when listed in
/// `repeatable`.
struct ArgumentSpec {
  std::vector<std::string> options = {};
  std::vector<std::string> repeatable = {};  ///< names without '='
  int least_operands = 0;
  int most_operands = 0;
};

/// Parsed command line. All errors are user errors that name the word and the nearest valid option.
class Arguments {
 public:
  Arguments(const std::string& command, const std::vector<std::string>& words, const ArgumentSpec& spec);

  bool has(const std::string& name) const { return values_.count(name) > 0; }
  std::optional<std::string> find(const std::string& name) const;
  std::string text(const std::string& name) const;  ///< user_error "longhaul eval needs --data" when absent
  std::string text(const std::string& name, const std::string& fallback) const;
  int64_t integer(const std::string& name, int64_t fallback, int64_t least = 0) const;
  double number(const std::string& name, double fallback) const;
  std::vector<std::string> all(const std::string& name) const;
  const std::vector<std::string>& operands() const { return operands_; }

 private:
  std::string command_;
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> operands_;
};

}  // namespace longhaul
