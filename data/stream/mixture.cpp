#include "data/stream/mixture.h"

#include <cmath>
#include <numeric>

#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr int kShareBits = 52;

/// round(samples * share): how many of the first `samples` the dataset gets. 128 bits hold every product.
int64_t taken(int64_t samples, uint64_t share) {
  __extension__ using Wide = unsigned __int128;
  const Wide half = Wide{1} << (kShareBits - 1);
  return static_cast<int64_t>((static_cast<Wide>(samples) * share + half) >> kShareBits);
}

}  // namespace

Mixture::Mixture(std::span<const double> weights) {
  if (weights.empty()) throw user_error("data.datasets: found none, expected at least one dataset");
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight <= 0)
      throw user_error("data.datasets: weight {}, expected more than 0", weight);
  }
  for (size_t d = 0; d < weights.size(); ++d) {
    const double rest = std::accumulate(weights.begin() + static_cast<int64_t>(d), weights.end(), 0.0);
    shares_.push_back(static_cast<uint64_t>(std::llround(std::ldexp(weights[d] / rest, kShareBits))));
  }
}

Mixture::Place Mixture::locate(int64_t sample) const {
  int64_t index = sample;
  for (size_t d = 0; d + 1 < shares_.size(); ++d) {
    const int64_t before = taken(index, shares_[d]);
    if (taken(index + 1, shares_[d]) > before) return {static_cast<int64_t>(d), before};
    index -= before;
  }
  return {static_cast<int64_t>(shares_.size()) - 1, index};
}

}  // namespace longhaul
