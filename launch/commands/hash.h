// `longhaul hash`: the layout-independent checksum of a training state.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command hash_command();

}  // namespace longhaul
