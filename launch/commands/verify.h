// `longhaul verify`: checks every byte and every id of a dataset directory.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command verify_command();

}  // namespace longhaul
