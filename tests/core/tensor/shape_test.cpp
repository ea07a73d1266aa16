#include "core/tensor/shape.h"

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

TEST(Shape, CountsElementsAndRows) {
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ(Shape{}.last(), 1);
  EXPECT_EQ((Shape{2, 3, 5}.count()), 30);
  EXPECT_EQ((Shape{2, 3, 5}.rows()), 6);
  EXPECT_EQ((Shape{2, 3, 5}.last()), 5);
  EXPECT_EQ((Shape{2, 0, 5}.count()), 0);
  EXPECT_EQ((Shape{4, 0}.rows()), 4);
  EXPECT_EQ((Shape{2, 3}.text()), "[2, 3]");
}

TEST(Shape, EqualWhenRankAndExtentsAgree) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
}

TEST(Shape, CountsBeyond32Bits) {
  const int64_t vocabulary = 50257;
  const Shape logits{8, 8192, vocabulary};
  EXPECT_EQ(logits.count(), int64_t{8} * 8192 * 50257);
  EXPECT_GT(logits.count(), int64_t{1} << 31);
}

TEST(Shape, OverflowAndNegativeExtentsAreErrors) {
  testing::expect_error(Fault::kInternal, {"64 bits"}, [] { (void)Shape{int64_t{1} << 40, int64_t{1} << 40}.count(); });
  testing::expect_error(Fault::kInternal, {"-1"}, [] { (void)Shape{2, -1}; });
  testing::expect_error(Fault::kInternal, {"6 axes"}, [] { (void)Shape{1, 1, 1, 1, 1, 1}; });
}

}  // namespace
}  // namespace longhaul
