// `longhaul eval`: cross-entropy and accuracy of a model on a split, or its logits and gradients for given token ids.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command eval_command();

}  // namespace longhaul
