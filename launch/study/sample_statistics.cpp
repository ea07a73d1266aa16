#include "launch/study/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace longhaul {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

SampleStatistics statistics_of(std::span<const double> values) {
  if (values.empty()) return {kNone, kNone};
  const double count = static_cast<double>(values.size());
  SampleStatistics result{std::accumulate(values.begin(), values.end(), 0.0) / count, 0};
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / (count - 1));
  return result;
}

double median_of(std::span<const double> values) {
  if (values.empty()) return kNone;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace longhaul
