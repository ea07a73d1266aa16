// Runs a subcommand that may have several ranks, so that a failure anywhere ends every rank with one message.
#pragma once

#include <functional>

#include "parallel/mpi/mpi_runtime.h"

namespace longhaul {

/// Makes the World, runs `body` and returns the exit code. An AgreedError is printed by the lowest failing rank before
/// any rank leaves; any other exception of one rank of several prints its message and ends all ranks at once.
int with_world(const std::function<int(World&)>& body);

}  // namespace longhaul
