#include "core/tensor/dtype.h"

#include <cmath>
#include <limits>

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

TEST(DType, NamesAndSizesGoBothWays) {
  for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64}) {
    EXPECT_EQ(dtype_from_name(name_of(type)), type);
  }
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::f32), 4);
  EXPECT_EQ(size_of(DType::i64), 8);
}

TEST(DType, UnknownNameIsAUserError) {
  testing::expect_error(Fault::kUser, {"'fp16'", "bf16"}, [] { dtype_from_name("fp16"); });
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(bf16(1.0f)), 1.0f);
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 1.0f / 256)), 1.0f);               // tie, even below
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 3.0f / 256)), 1.0f + 4.0f / 256);  // tie, even above
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 1.1f / 256)), 1.0f + 2.0f / 256);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(static_cast<float>(bf16(std::numeric_limits<float>::infinity()))));
}

}  // namespace
}  // namespace longhaul
