// `longhaul version`: the same as `longhaul --version`.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command version_command();

}  // namespace longhaul
