// `longhaul tokenize`: raw text to HDF5 token shards.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command tokenize_command();

}  // namespace longhaul
