// `longhaul bench step`: how fast a whole training step is on this machine.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command bench_command();

}  // namespace longhaul
