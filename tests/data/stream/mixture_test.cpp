#include "data/stream/mixture.h"

#include <cmath>
#include <limits>

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

TEST(Mixture, KeepsProportionsAtEveryPrefix) {
  const std::vector<double> weights = {0.5, 3, 1.25, 0.01};
  const Mixture mixture(weights);
  std::vector<int64_t> counts(weights.size());
  for (int64_t sample = 0; sample < 20000; ++sample) {
    const Mixture::Place place = mixture.locate(sample);
    EXPECT_EQ(place.index, counts[static_cast<size_t>(place.dataset)]) << "sample " << sample;
    ++counts[static_cast<size_t>(place.dataset)];
    for (size_t d = 0; d < weights.size(); ++d) {
      ASSERT_LT(std::abs(static_cast<double>(counts[d]) - weights[d] / 4.76 * static_cast<double>(sample + 1)), 4.0);
    }
  }
}

TEST(Mixture, TwoEqualDatasetsTakeTurns) {
  const Mixture mixture(std::vector<double>{2, 2});
  for (int64_t sample = 0; sample < 100; ++sample) EXPECT_EQ(mixture.locate(sample).index, sample / 2);
}

TEST(Mixture, OneDatasetGetsEverything) {
  const Mixture mixture(std::vector<double>{0.3});
  EXPECT_EQ(mixture.locate(int64_t{1} << 60).index, int64_t{1} << 60);
}

TEST(Mixture, HoldsFarOut) {
  const Mixture mixture(std::vector<double>{1, 2});
  const int64_t far = int64_t{1} << 50;
  int64_t first = 0;
  for (int64_t sample = far; sample < far + 300; ++sample) first += mixture.locate(sample).dataset == 0;
  EXPECT_EQ(first, 100);
}

TEST(Mixture, RefusesBadWeights) {
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    user_error_of([&] { Mixture(std::vector<double>{1, bad}); });
  }
  user_error_of([] { Mixture(std::vector<double>{}); });
}

}  // namespace
}  // namespace longhaul
