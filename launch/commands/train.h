// `longhaul train`: starts or continues a run.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command train_command();

}  // namespace longhaul
