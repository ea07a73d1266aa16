// The one program: finds the subcommand, runs it, turns errors into one line on stderr and an exit code.
#include <string>
#include <vector>

#include "launch/command_list.h"
#include "launch/program.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  return longhaul::run_program(longhaul::command_list(), words);
}
