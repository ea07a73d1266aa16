#include "core/control/entropy_summary.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "kernels/error.h"

namespace longhaul {
namespace {

__extension__ typedef __int128 Wide;

constexpr double kQuantum = 0x1p-30;  ///< |value| <= 2: a square needs 62 bits
constexpr int64_t kLowBits = (int64_t{1} << 32) - 1;

/// Three digits of the 32 sortable bits of a float, most significant first.
struct Digit {
  int shift, bits;
};
constexpr std::array<Digit, 3> kDigits{{{21, 11}, {10, 11}, {0, 10}}};
constexpr size_t kBuckets = 2048;  ///< of one digit

/// What every rank contributes beside the first histogram: sums over 2^31 values stay within 64 bits.
constexpr size_t kCount = 0, kSum = 1, kSquareLow = 2, kSquareHigh = 3, kMoments = 4;

/// Bits whose order as unsigned numbers is the order of the floats.
uint32_t sortable_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

float from_sortable_bits(uint32_t bits) {
  return std::bit_cast<float>((bits & 0x80000000u) != 0 ? bits & 0x7fffffffu : ~bits);
}

void add_moments(int64_t* moments, float value) {
  if (!(std::fabs(value) <= 2)) throw internal_error("entropy summary: {} is no normalised entropy", value);
  const int64_t quantised = std::llround(static_cast<double>(value) / kQuantum), square = quantised * quantised;
  ++moments[kCount];
  moments[kSum] += quantised;
  moments[kSquareLow] += square & kLowBits;
  moments[kSquareHigh] += square >> 32;
}

/// Count, mean and deviation from sums that hold all ranks.
EntropySummary from_moments(const int64_t* moments) {
  EntropySummary summary;
  summary.count = moments[kCount];
  if (summary.count == 0) return summary;
  const double count = static_cast<double>(summary.count);
  summary.mean = static_cast<double>(moments[kSum]) * kQuantum / count;
  if (summary.count == 1) return summary;
  const Wide squares = (Wide{moments[kSquareHigh]} << 32) + moments[kSquareLow];
  const Wide spread = Wide{summary.count} * squares - Wide{moments[kSum]} * moments[kSum];  // n^2 times the variance
  summary.deviation = std::sqrt(static_cast<double>(spread) / (count * (count - 1))) * kQuantum;
  return summary;
}

/// Where the wanted value of one gate lies: the leading digits found so far, and its index among the values with them.
struct Search {
  uint32_t prefix = 0;
  int64_t index = 0;
};

/// Narrows the search by one digit, given the histogram of that digit among the values with the prefix.
void descend(Search& search, const int64_t* histogram, const Digit& digit) {
  uint32_t bucket = 0;
  while (search.index >= histogram[bucket]) search.index -= histogram[bucket++];
  search.prefix |= bucket << digit.shift;
}

void count_digits(int64_t* histogram, const std::vector<float>& values, const Search& search, const Digit& digit) {
  const int above = digit.shift + digit.bits;  // bits that must equal the prefix start here
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const uint32_t bits = sortable_bits(value);
    if (above < 32 && bits >> above != search.prefix >> above) continue;
    ++histogram[bits >> digit.shift & ((1u << digit.bits) - 1)];
  }
}

}  // namespace

std::vector<EntropySummary> summarize_entropies(Communicator& group, std::span<const std::vector<float>> gates) {
  std::vector<EntropySummary> summaries(gates.size());
  std::vector<Search> searches(gates.size());
  for (size_t digit = 0; digit < kDigits.size(); ++digit) {
    const size_t stride = kBuckets + (digit == 0 ? kMoments : 0);
    std::vector<int64_t> counts(gates.size() * stride);
    for (size_t gate = 0; gate < gates.size(); ++gate) {
      int64_t* const histogram = &counts[gate * stride];
      count_digits(histogram, gates[gate], searches[gate], kDigits[digit]);
      if (digit > 0) continue;
      for (const float value : gates[gate]) {
        if (std::isfinite(value)) add_moments(histogram + kBuckets, value);
      }
    }
    group.sum(counts);
    for (size_t gate = 0; gate < gates.size(); ++gate) {
      const int64_t* const histogram = &counts[gate * stride];
      if (digit == 0) {
        summaries[gate] = from_moments(histogram + kBuckets);
        searches[gate].index = (summaries[gate].count - 1) / 2;
      }
      if (summaries[gate].count > 0) descend(searches[gate], histogram, kDigits[digit]);
    }
  }
  for (size_t gate = 0; gate < gates.size(); ++gate) {
    if (summaries[gate].count > 0) summaries[gate].median = from_sortable_bits(searches[gate].prefix);
  }
  return summaries;
}

}  // namespace longhaul
