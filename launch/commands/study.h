#pragma once

#include "launch/command.h"

namespace longhaul {

/// longhaul study ablation: what each part of length-aware training is worth.
Command study_command();

}  // namespace longhaul
