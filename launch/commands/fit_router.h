// `longhaul fit-router`.
#pragma once

#include "launch/command.h"

namespace longhaul {

Command fit_router_command();

}  // namespace longhaul
