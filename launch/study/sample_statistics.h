// Mean and deviation of a few repetitions.
#pragma once

#include <span>

namespace longhaul {

struct SampleStatistics {
  double mean = 0;
  double deviation = 0;  ///< of the sample, with n - 1; 0 for a single value
};

/// NaN for no values.
SampleStatistics statistics_of(std::span<const double> values);

/// The middle value; of an even number the mean of the two in the middle. NaN for no values.
double median_of(std::span<const double> values);

}  // namespace longhaul
