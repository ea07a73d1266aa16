#include "core/control/controller_random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul {
namespace {

constexpr ControllerStream kGame = ControllerStream::context_game;

TEST(ControllerRandom, ADrawDependsOnItsKeyAlone) {
  const ControllerRandom random(5, kGame, 3);
  const double later = random.uniform(9);
  random.uniform(0);
  EXPECT_EQ(ControllerRandom(5, kGame, 3).uniform(9), later);
}

TEST(ControllerRandom, EveryPartOfTheKeyCounts) {
  const double draw = ControllerRandom(5, kGame, 3, 1).uniform(9);
  EXPECT_NE(ControllerRandom(6, kGame, 3, 1).uniform(9), draw);
  EXPECT_NE(ControllerRandom(5, ControllerStream::guardian, 3, 1).uniform(9), draw);
  EXPECT_NE(ControllerRandom(5, kGame, 4, 1).uniform(9), draw);
  EXPECT_NE(ControllerRandom(5, kGame, 3, 2).uniform(9), draw);
  EXPECT_NE(ControllerRandom(5, kGame, 3, 1).uniform(8), draw);
}

TEST(ControllerRandom, MomentsOfTheDraws) {
  const int64_t count = 4001;
  double uniform = 0, normal = 0, square = 0;
  for (int64_t i = 0; i < count; ++i) {
    const ControllerRandom random(11, ControllerStream::guardian, i);
    const double draw = random.uniform(0), gaussian = random.normal(1);
    ASSERT_TRUE(draw >= 0 && draw < 1);
    uniform += draw;
    normal += gaussian;
    square += gaussian * gaussian;
  }
  EXPECT_NEAR(uniform / count, 0.5, 4 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(normal / count, 0, 4 * std::sqrt(1.0 / count));
  EXPECT_NEAR(square / count, 1, 4 * std::sqrt(2.0 / count));
}

}  // namespace
}  // namespace longhaul
