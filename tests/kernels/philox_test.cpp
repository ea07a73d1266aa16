#include "kernels/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace longhaul::kernels {
namespace {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint32_t key0, uint32_t key1) {
  philox4x32(counter.data(), key0, key1);
  return counter;
}

// Known answers of philox4x32-10 published with Random123 (kat_vectors).
TEST(PhiloxTest, KnownAnswers) {
  using Draws = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (Draws{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
            (Draws{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Draws{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, EveryPartOfTheKeyNamesAnotherStream) {
  std::set<std::array<uint32_t, 4>> seen;
  const auto draw = [&](RandomKey key, uint64_t sample, uint64_t index) {
    std::array<uint32_t, 4> out;
    random_bits4(key, sample, index, out.data());
    return seen.insert(out).second;
  };
  const RandomKey key{.seed = 1, .step = 2, .layer = 3};
  EXPECT_TRUE(draw(key, 4, 5));
  EXPECT_FALSE(draw(key, 4, 5)) << "a draw is a function of its key";
  EXPECT_TRUE(draw({.seed = 2, .step = 2, .layer = 3}, 4, 5));
  EXPECT_TRUE(draw({.seed = uint64_t{1} << 32 | 1, .step = 2, .layer = 3}, 4, 5));
  EXPECT_TRUE(draw({.seed = 1, .step = 3, .layer = 3}, 4, 5));
  EXPECT_TRUE(draw({.seed = 1, .step = uint64_t{1} << 32 | 2, .layer = 3}, 4, 5));
  EXPECT_TRUE(draw({.seed = 1, .step = 2, .layer = 4}, 4, 5));
  EXPECT_TRUE(draw(key, uint64_t{1} << 32 | 4, 5));
  EXPECT_TRUE(draw(key, 5, 5));
  EXPECT_TRUE(draw(key, 4, 6));
  EXPECT_TRUE(draw(key, 4, uint64_t{1} << 32 | 5));
}

TEST(PhiloxTest, UniformStaysBelowOne) {
  EXPECT_EQ(uniform_from_bits(0), 0.0f);
  EXPECT_LT(uniform_from_bits(0xffffffff), 1.0f);
}

}  // namespace
}  // namespace longhaul::kernels
