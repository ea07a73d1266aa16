// Texts between ranks, for decisions that rank 0 takes and reports to all.
#pragma once

#include <string>
#include <vector>

#include "core/comm/communicator.h"

namespace longhaul {

/// Collective: every rank's text, by rank.
std::vector<std::string> texts_of_all(Communicator& group, const std::string& text);
/// Collective: the text of rank 0, on every rank.
std::string text_from_root(Communicator& group, const std::string& text);

}  // namespace longhaul
