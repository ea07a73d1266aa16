// Makes one rank's failure everyone's failure before the next collective, so that nothing hangs.
#pragma once

#include <functional>
#include <string>

#include "core/comm/communicator.h"

namespace longhaul {

/// Runs `action` on every rank, then agrees: if it threw on any rank, every rank throws an Error with the message (and
/// fault) of the lowest failing rank, prefixed by "rank N: " when the group has several. Collective. `action` must not
/// itself communicate.
void agree(Communicator& group, const std::string& phase, const std::function<void()>& action);

}  // namespace longhaul
