#include "kernels/entropy.h"

#include <algorithm>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

/// Entropy of every row of scores [rows, vocabulary], given in tiles of `tile` columns.
template <typename T>
std::vector<float> entropy_of(const std::vector<T>& scores, int64_t vocabulary, int64_t tile) {
  const int64_t rows = static_cast<int64_t>(scores.size()) / vocabulary;
  std::vector<RunningEntropy> running(static_cast<size_t>(rows));
  for (int64_t column = 0; column < vocabulary; column += tile)
    entropy_update<T>(Cpu{}, running.data(), scores.data() + column, vocabulary, rows,
                      std::min(tile, vocabulary - column));
  std::vector<float> entropy(static_cast<size_t>(rows), NAN);
  entropy_finish(Cpu{}, entropy.data(), running.data(), rows, vocabulary);
  return entropy;
}

/// The definition.
template <typename T>
double reference(const T* scores, int64_t vocabulary) {
  const double largest = *std::max_element(scores, scores + vocabulary);
  double sum = 0, entropy = 0;
  for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(scores[v] - largest);
  for (int64_t v = 0; v < vocabulary; ++v) {
    const double log_p = scores[v] - largest - std::log(sum);
    entropy -= std::exp(log_p) * log_p;
  }
  return entropy / std::log(static_cast<double>(vocabulary));
}

template <typename T>
class EntropyTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EntropyTest, ElementTypes);

TYPED_TEST(EntropyTest, MatchesTheDefinitionHoweverItIsCut) {
  for (int64_t vocabulary : {2, 3, 31, 65, 1000, 2500})
    for (double scale : {0.01, 1.0, 7.0, 1e4}) {
      std::vector<TypeParam> scores = random_values<TypeParam>(3 * vocabulary, 5);
      for (TypeParam& score : scores) score *= static_cast<TypeParam>(scale);
      for (int64_t tile : {int64_t{1}, int64_t{7}, int64_t{1024}, vocabulary}) {
        const std::vector<float> found = entropy_of(scores, vocabulary, tile);
        for (int64_t row = 0; row < 3; ++row)
          EXPECT_NEAR(found[static_cast<size_t>(row)], reference(scores.data() + row * vocabulary, vocabulary), 2e-6)
              << vocabulary << " scores of " << scale << " by " << tile;
      }
    }
}

TYPED_TEST(EntropyTest, EqualScoresGiveOneAndACertainOneZero) {
  for (TypeParam level : {TypeParam(0), TypeParam(-1e4), TypeParam(1e4)}) {
    std::vector<TypeParam> equal(100, level), certain(100, level);
    certain[70] += TypeParam(2000);
    for (int64_t tile : {3, 64, 100}) {
      EXPECT_EQ(entropy_of(equal, 100, tile), std::vector<float>{1.0f});
      EXPECT_EQ(entropy_of(certain, 100, tile), std::vector<float>{0.0f});
    }
  }
}

TYPED_TEST(EntropyTest, RisingMaximaAndHugeSpread) {
  std::vector<TypeParam> rising(64), spread(64, TypeParam(-1e4));
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<TypeParam>(i) * TypeParam(0.25);
  spread[0] = TypeParam(-1e4);
  spread[20] = spread[63] = TypeParam(1e4);  // two equal winners: log 2 / log 64
  for (int64_t tile : {1, 5, 64}) {
    EXPECT_NEAR(entropy_of(rising, 64, tile)[0], reference(rising.data(), 64), 1e-6);
    EXPECT_NEAR(entropy_of(spread, 64, tile)[0], 1.0 / 6.0, 1e-6);
  }
}

TYPED_TEST(EntropyTest, NotANumberShows) {
  for (size_t at : {0, 40, 63, 66}) {
    std::vector<TypeParam> scores(67, TypeParam(1));
    scores[at] = TypeParam(NAN);
    EXPECT_TRUE(std::isnan(entropy_of(scores, 67, 67)[0])) << at;
    EXPECT_TRUE(std::isnan(entropy_of(scores, 67, 5)[0])) << at;
  }
}

TYPED_TEST(EntropyTest, SameBitsOnAnyNumberOfThreads) {
  expect_same_on_any_threads([] { return entropy_of(random_values<TypeParam>(50 * 1025, 3), 1025, 1025); });
}

}  // namespace
}  // namespace longhaul::kernels
