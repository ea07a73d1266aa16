#include "kernels/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace longhaul {
namespace {

TEST(Bf16Test, RoundsToNearestEven) {
  EXPECT_EQ(float(bf16(1.0f)), 1.0f);
  EXPECT_EQ(float(bf16(1.0f + 1.0f / 256)), 1.0f) << "half way: to the even neighbour below";
  EXPECT_EQ(float(bf16(1.0f + 3.0f / 256)), 1.0f + 1.0f / 64) << "half way: to the even neighbour above";
  EXPECT_EQ(float(bf16(1.0f + 1.001f / 256)), 1.0f + 1.0f / 128);
}

TEST(Bf16Test, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float(bf16(infinity)), infinity);
  EXPECT_EQ(float(bf16(-infinity)), -infinity);
  EXPECT_EQ(float(bf16(std::numeric_limits<float>::max())), infinity) << "rounds up past the largest bf16";
  EXPECT_TRUE(std::isnan(float(bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(float(bf16(std::bit_cast<float>(0x7f800001u))))) << "a NaN whose payload is in the lower half";
  EXPECT_TRUE(std::signbit(float(bf16(-0.0f))));
}

}  // namespace
}  // namespace longhaul
