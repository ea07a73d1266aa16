// `longhaul inspect`: what a path holds, in a few lines.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command inspect_command();

}  // namespace longhaul
