// `longhaul stream`: the samples of a run as JSON lines, without training.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command stream_command();

}  // namespace longhaul
