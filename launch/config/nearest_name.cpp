#include "launch/config/nearest_name.h"

#include <algorithm>
#include <cctype>

namespace longhaul {
namespace {

std::string folded(const std::string& name) {
  std::string result = name;
  for (char& letter : result)
    letter = letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

}  // namespace

int edit_distance(const std::string& first, const std::string& second) {
  const std::string a = folded(first), b = folded(second);
  const size_t rows = a.size() + 1, columns = b.size() + 1;
  std::vector<std::vector<int>> cost(rows, std::vector<int>(columns));
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[rows - 1][columns - 1];
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& names) {
  std::string best;
  int best_distance = static_cast<int>(std::max<size_t>(2, name.size() / 3)) + 1;
  for (const std::string& candidate : names) {
    const int distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace longhaul
