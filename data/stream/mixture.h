// Which dataset a sample comes from: a deterministic low-discrepancy rule, found in O(datasets) without history.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul {

/// Sample i belongs to dataset 0 when round(i p) steps up between i and i + 1, p its share; the samples left over are
/// divided in the same way among the other datasets. Among the first n samples each dataset's count differs from n *
/// share by less than the number of datasets (by at most 1/2 with two).
class Mixture {
 public:
  explicit Mixture(std::span<const double> weights);  ///< user_error unless all are finite and > 0

  struct Place {
    int64_t dataset = 0;
    int64_t index = 0;  ///< samples of that dataset before this one
  };
  Place locate(int64_t sample) const;

 private:
  std::vector<uint64_t> shares_;  // of dataset d among d, d + 1, ...; unit 2^-52
};

}  // namespace longhaul
