#include "core/comm/rank_list.h"

#include <cstddef>

namespace longhaul {

std::string rank_list(const std::vector<int>& ranks) {
  constexpr size_t kMostShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < kMostShown; ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kMostShown) text += " and " + std::to_string(ranks.size() - kMostShown) + " more";
  return text;
}

}  // namespace longhaul
