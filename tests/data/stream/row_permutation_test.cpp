#include "data/stream/row_permutation.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace longhaul {
namespace {

std::vector<int64_t> order(int64_t count, uint64_t seed, int64_t dataset, int64_t epoch) {
  const RowPermutation permutation(count, seed, dataset, epoch);
  std::vector<int64_t> rows;
  for (int64_t place = 0; place < count; ++place) rows.push_back(permutation.row_at(place));
  return rows;
}

TEST(RowPermutation, IsABijectionAtEverySize) {
  for (const int64_t count : {1, 2, 3, 4, 5, 15, 16, 17, 255, 257, 1000}) {
    const auto rows = order(count, 7, 0, 0);
    const std::set<int64_t> distinct(rows.begin(), rows.end());
    EXPECT_EQ(static_cast<int64_t>(distinct.size()), count);
    EXPECT_EQ(*distinct.begin(), 0);
    EXPECT_EQ(*distinct.rbegin(), count - 1);
  }
}

TEST(RowPermutation, DependsOnSeedDatasetAndEpoch) {
  const auto base = order(200, 1, 0, 0);
  EXPECT_EQ(order(200, 1, 0, 0), base);
  EXPECT_NE(order(200, 2, 0, 0), base);
  EXPECT_NE(order(200, 1, 1, 0), base);
  EXPECT_NE(order(200, 1, 0, 1), base);
}

TEST(RowPermutation, LooksRandom) {
  const int64_t count = 4000;
  const auto rows = order(count, 3, 0, 5);
  double sum = 0;  // of products of neighbours, centred: near zero for a random order
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    sum += (static_cast<double>(rows[i]) / count - 0.5) * (static_cast<double>(rows[i + 1]) / count - 0.5);
  }
  EXPECT_LT(std::abs(sum / count), 0.01);  // 1/12 when neighbours stay together, standard deviation 0.0013
}

TEST(RowPermutation, ReachesBeyondFourBillionRows) {
  const int64_t count = (int64_t{1} << 40) + 12345;
  const RowPermutation permutation(count, 1, 0, 0);
  std::set<int64_t> rows;
  int64_t large = 0;
  for (int64_t place = count - 1000; place < count; ++place) {
    const int64_t row = permutation.row_at(place);
    ASSERT_GE(row, 0);
    ASSERT_LT(row, count);
    large += row > int64_t{1} << 32;
    rows.insert(row);
  }
  EXPECT_EQ(rows.size(), 1000u);
  EXPECT_GT(large, 900);
}

}  // namespace
}  // namespace longhaul
