// Beside the tests of ranks, since the summary is over ranks: a group of threads stands for them.
#include "core/control/entropy_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/error.h"
#include "kernels/philox.h"
#include "tests/parallel/thread_communicator.h"

namespace longhaul {
namespace {

using testing::run_ranks;

std::vector<float> random_entropies(int64_t count, uint64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits[4];
    kernels::random_bits4({seed, 0, 0}, 0, static_cast<uint64_t>(i), bits);
    values.push_back(static_cast<float>(kernels::uniform_from_bits(bits[0])));
  }
  return values;
}

EntropySummary naive(std::vector<float> values) {
  EntropySummary summary;
  summary.count = static_cast<int64_t>(values.size());
  std::sort(values.begin(), values.end());
  summary.median = values[(values.size() - 1) / 2];
  summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (const float value : values) squares += (value - summary.mean) * (value - summary.mean);
  if (values.size() > 1) summary.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return summary;
}

EntropySummary alone(const std::vector<float>& values) {
  const auto group = make_single_communicator();
  return summarize_entropies(*group, std::vector<std::vector<float>>{values}).front();
}

void expect_naive(const std::vector<float>& values) {
  const EntropySummary found = alone(values), expected = naive(values);
  EXPECT_EQ(found.count, expected.count);
  EXPECT_EQ(found.median, expected.median) << values.size() << " values";
  EXPECT_NEAR(found.mean, expected.mean, 1e-9);
  EXPECT_NEAR(found.deviation, expected.deviation, 2e-9);
}

TEST(EntropySummary, MatchesSortingAndTheTwoPassDeviation) {
  for (const int64_t count : {1, 2, 3, 4, 5, 64, 1001}) expect_naive(random_entropies(count, 7));
}

TEST(EntropySummary, TiesNeighbouringFloatsAndEnds) {
  const float half = 0.5f, next = std::nextafter(half, 1.0f);
  expect_naive({half, half, half, next, next});
  expect_naive({next, half, next, half});
  expect_naive({0.0f, 0.0f, 1.0f, 1.0f});
  expect_naive({-1e-7f, 0.0f, 1e-30f, 1.0000001f, -0.25f});
  expect_naive({2.0f, -2.0f, 2.0f});
}

TEST(EntropySummary, AllEqualHaveNoDeviation) {
  const EntropySummary summary = alone(std::vector<float>(777, 0.1f));
  EXPECT_EQ(summary.median, 0.1f);
  EXPECT_EQ(summary.deviation, 0);
}

TEST(EntropySummary, NothingGivesZeros) {
  const EntropySummary summary = alone({});
  EXPECT_EQ(summary.count, 0);
  EXPECT_EQ(summary.median, 0);
  EXPECT_EQ(summary.deviation, 0);
  const auto group = make_single_communicator();
  EXPECT_TRUE(summarize_entropies(*group, {}).empty());
}

TEST(EntropySummary, LeavesOutWhatIsNotFiniteAndRefusesWhatIsNoEntropy) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const EntropySummary summary = alone({nan, 0.25f, infinity, 0.75f, 0.5f, -infinity});
  EXPECT_EQ(summary.count, 3);
  EXPECT_EQ(summary.median, 0.5f);
  EXPECT_THROW(alone({2.5f}), Error);
}

TEST(EntropySummary, HasTheSameBitsOnAnyRanks) {
  const std::vector<std::vector<float>> gates{random_entropies(1003, 1), random_entropies(10, 2), {}, {0.4f}};
  const auto group = make_single_communicator();
  const std::vector<EntropySummary> expected = summarize_entropies(*group, gates);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_ranks(ranks, [&](Communicator& member) {
      std::vector<std::vector<float>> mine(gates.size());
      for (size_t gate = 0; gate < gates.size(); ++gate) {
        const int64_t count = static_cast<int64_t>(gates[gate].size());
        // Unequal runs in another order: rank r takes from r^2 to (r + 1)^2 parts of ranks^2, backwards.
        const int64_t parts = ranks * ranks, rank = member.rank();
        const int64_t begin = count * rank * rank / parts, end = count * (rank + 1) * (rank + 1) / parts;
        for (int64_t i = end; i-- > begin;) mine[gate].push_back(gates[gate][static_cast<size_t>(i)]);
      }
      const std::vector<EntropySummary> found = summarize_entropies(member, mine);
      for (size_t gate = 0; gate < gates.size(); ++gate) {
        EXPECT_EQ(found[gate].count, expected[gate].count);
        EXPECT_EQ(found[gate].median, expected[gate].median);
        EXPECT_EQ(found[gate].mean, expected[gate].mean);
        EXPECT_EQ(found[gate].deviation, expected[gate].deviation) << "gate " << gate << ", " << ranks << " ranks";
      }
    });
  }
}

}  // namespace
}  // namespace longhaul
