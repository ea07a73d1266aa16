// Every subcommand of the program, in the order of `longhaul --help`.
#pragma once

#include <vector>

#include "launch/command.h"

namespace longhaul {

std::vector<Command> command_list();

}  // namespace longhaul
