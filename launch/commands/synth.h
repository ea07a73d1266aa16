// `longhaul synth`: datasets of synthetic tasks.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command synth_command();

}  // namespace longhaul
