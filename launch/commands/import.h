// `longhaul import`: a Hugging Face directory as a checkpoint that eval, generate and train start from.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command import_command();

}  // namespace longhaul
