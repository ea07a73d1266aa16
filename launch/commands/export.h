// `longhaul export`: a trained model as a Hugging Face directory.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command export_command();

}  // namespace longhaul
