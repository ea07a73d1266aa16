// The frame around every subcommand: help, version, nearest command, errors as one line.
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace longhaul {

/// Runs the subcommand that words[0] names and returns the program's exit code; never throws.
int run_program(const std::vector<Command>& commands, const std::vector<std::string>& words);

/// "longhaul: rank 1: ..." on stderr, the rank only under a launcher with several ranks and not yet named by the
/// message.
void print_error(const std::string& message);

inline constexpr const char* kOutOfMemory = "out of memory; use fewer rows per slot or a smaller model";

/// --version: commit, build type, libraries as compiled and as loaded, CPU kernel variant.
std::string version_text();

}  // namespace longhaul
