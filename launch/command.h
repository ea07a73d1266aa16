// A subcommand of the program: launch/commands/<name>.{h,cpp} defines `Command <name>_command()`, launch/main.cpp lists
// it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace longhaul {

struct Command {
  std::string name;            ///< "train"
  std::string summary;         ///< one line for the list of commands
  std::string usage_examples;  ///< what --help prints: usage line, options, at least one example
  /// Runs with the words after the subcommand's name and returns the exit code. Errors are thrown as longhaul::Error;
  /// main prints them as one line and turns them into an exit code. `--help` never arrives here.
  std::function<int(const std::vector<std::string>& arguments)> run;
};

}  // namespace longhaul
