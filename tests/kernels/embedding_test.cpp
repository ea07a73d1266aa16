#include "kernels/embedding.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
class EmbeddingTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EmbeddingTest, ElementTypes);

TYPED_TEST(EmbeddingTest, LooksUpTokensAndPositions) {
  const std::vector<TypeParam> tokens = {1, 2, 3, 4, 5, 6}, positions = {10, 20, 30, 40};
  const std::vector<int32_t> ids = {2, 0, 2}, position_ids = {0, 1, 1};
  std::vector<TypeParam> y(6, TypeParam(NAN));
  embedding_forward<TypeParam>(Cpu{}, y.data(), ids.data(), nullptr, tokens.data(), nullptr, 3, 2);
  EXPECT_EQ(y, (std::vector<TypeParam>{5, 6, 1, 2, 5, 6}));
  embedding_forward<TypeParam>(Cpu{}, y.data(), ids.data(), position_ids.data(), tokens.data(), positions.data(), 3, 2);
  EXPECT_EQ(y, (std::vector<TypeParam>{15, 26, 31, 42, 35, 46}));
}

TYPED_TEST(EmbeddingTest, BackwardAddsRowsOfTheSameId) {
  const std::vector<int32_t> ids = {2, 0, 2};
  const std::vector<TypeParam> dy = {1, 2, 3, 4, 5, 6};
  std::vector<TypeParam> dtable = {0, 0, 7, 7, 0, 0};
  embedding_backward<TypeParam>(Cpu{}, dtable.data(), ids.data(), dy.data(), 3, 2);
  EXPECT_EQ(dtable, (std::vector<TypeParam>{3, 4, 7, 7, 6, 8}));
}

TYPED_TEST(EmbeddingTest, BackwardHasOneOrderForAnyThreads) {
  constexpr int64_t kRows = 900, kColumns = 53, kVocabulary = 5;
  const auto dy = random_values<TypeParam>(kRows * kColumns, 1);
  std::vector<int32_t> ids;
  for (int32_t row = 0; row < kRows; ++row) ids.push_back(row * row % kVocabulary);
  const auto run = [&] {
    std::vector<TypeParam> dtable(kVocabulary * kColumns, 0);
    embedding_backward<TypeParam>(Cpu{}, dtable.data(), ids.data(), dy.data(), kRows, kColumns);
    return dtable;
  };
  expect_same_on_any_threads(run);
  std::vector<TypeParam> rising(kVocabulary * kColumns, 0);
  for (size_t row = 0; row < kRows; ++row)
    for (size_t c = 0; c < kColumns; ++c)
      rising[static_cast<size_t>(ids[row]) * kColumns + c] += dy[row * kColumns + c];
  EXPECT_TRUE(same_bits(run(), rising));
}

TEST(EmbeddingOffsetTest, TableBeyondTwoToThe31Elements) {
  constexpr int64_t kColumns = 1024, kVocabulary = (int64_t{1} << 21) + 3;
  const size_t bytes = static_cast<size_t>(kColumns * kVocabulary) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "cannot reserve address space";
  float* const table = static_cast<float*>(memory);
  const int32_t id = static_cast<int32_t>(kVocabulary - 1);
  const auto dy = random_values<float>(kColumns, 1);
  embedding_backward<float>(Cpu{}, table, &id, dy.data(), 1, kColumns);
  std::vector<float> y(kColumns, NAN);
  embedding_forward<float>(Cpu{}, y.data(), &id, nullptr, table, nullptr, 1, kColumns);
  EXPECT_TRUE(same_bits(y, dy));
  EXPECT_EQ(table[kVocabulary * kColumns - 1], dy.back());
  munmap(memory, bytes);
}

}  // namespace
}  // namespace longhaul::kernels
