// The one exception type of the project. Lowest floor, so that every folder can throw it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace longhaul {

/// Who has to act. The exit code of the program follows from it (launch/exit_codes.h).
enum class Fault {
  kUser,     ///< bad input, configuration or file: the message says what was found, what was expected, what to do
  kSystem,   ///< the machine refused: disk full, unreadable file, lost rank
  kInternal  ///< a defect of ours: violated shape or state
};

/// An error with one line of text. Context is put in front as it travels up: "file x: dataset y: ...".
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  Fault fault() const { return fault_; }
  /// The same error with "context: " in front of its text.
  Error within(const std::string& context) const { return Error(fault_, context + ": " + what()); }

 private:
  Fault fault_;
};

/// throw user_error("run.ini: key '{}' is unknown; did you mean '{}'?", key, nearest);
template <typename... Args>
Error user_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(Fault::kUser, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
Error system_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(Fault::kSystem, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
Error internal_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(Fault::kInternal, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace longhaul
