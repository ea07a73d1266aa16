// Threads of a rank: cores are shared fairly by the ranks of a machine.
#pragma once

#include "core/comm/communicator.h"

namespace longhaul {

/// Ranks of the group on this rank's machine. Collective.
int ranks_on_this_machine(Communicator& group);
/// Sets the threads of OpenMP and returns their number: `wanted`, or, when it is 0, the cores of the
/// machine divided by the ranks on it, no more than the cores this process is bound to. Collective.
int set_threads(Communicator& group, int64_t wanted);

}  // namespace longhaul
