#include "core/optim/clipping.h"

#include <limits>

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

TEST(ClipFactor, ShortensLongGradientsOnly) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(1.0, 1.0), 1.0);
  EXPECT_EQ(clip_factor(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
}

TEST(ClipFactor, ZeroMeansNoClipping) { EXPECT_EQ(clip_factor(1e9, 0.0), 1.0); }

TEST(ClipFactor, NonFiniteNormsAreErrors) {
  for (const double norm : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    testing::expect_error(Fault::kInternal, {"clip_factor"}, [norm] { clip_factor(norm, 1.0); });
  }
}

}  // namespace
}  // namespace longhaul
