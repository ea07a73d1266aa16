// `longhaul generate`: continues prompts with a trained model.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command generate_command();

}  // namespace longhaul
