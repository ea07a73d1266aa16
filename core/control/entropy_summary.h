// Order statistics and moments of gate entropies over all ranks, exact and independent of how the values lie on ranks:
// the median is selected by integer histograms, the moments are integer sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/communicator.h"

namespace longhaul {

/// Of one gate over the valid tokens of a global batch.
struct EntropySummary {
  int64_t count = 0;     ///< values that entered; the others are 0 when there are none
  double median = 0;     ///< the lower one: sorted index (count - 1) / 2
  double mean = 0;       ///< of the values rounded to multiples of 2^-30, as is the deviation
  double deviation = 0;  ///< with count - 1; 0 for a single value
};

/// One summary for each of `gates`, which hold this rank's entropies, in any order and number. Values that are not
/// finite are left out. Finite ones lie in [-2, 2] (normalised entropies lie in [0, 1], to rounding), else
/// internal_error. Collective, three calls whatever the number of gates; every rank gives as many gates.
std::vector<EntropySummary> summarize_entropies(Communicator& group, std::span<const std::vector<float>> gates);

}  // namespace longhaul
