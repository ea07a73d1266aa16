// `longhaul config`: what a configuration resolves to.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command config_command();

}  // namespace longhaul
