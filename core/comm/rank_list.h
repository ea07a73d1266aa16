// Ranks in messages.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

/// "rank 3", "ranks 0, 2, 5"; from the ninth on only their number: "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 120 more".
std::string rank_list(const std::vector<int>& ranks);

}  // namespace longhaul
