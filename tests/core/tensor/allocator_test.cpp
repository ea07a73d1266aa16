#include "core/tensor/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

class AllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    allocator::release_cached({});
    allocator::reset_peak({});
    before_ = allocator::use({});
  }
  MemoryUse before_;
};

TEST_F(AllocatorTest, SizeClassesWasteAtMostAnEighth) {
  EXPECT_EQ(allocator::block_bytes(0), 64);
  EXPECT_EQ(allocator::block_bytes(1), 64);
  EXPECT_EQ(allocator::block_bytes(64), 64);
  EXPECT_EQ(allocator::block_bytes(65), 128);
  EXPECT_EQ(allocator::block_bytes(1025), 1152);
  EXPECT_EQ(allocator::block_bytes((16 << 20) + 1), 18 << 20);
  int64_t previous = 0;
  for (int64_t bytes = 1; bytes < (int64_t{1} << 34); bytes += 1 + bytes / 7) {
    const int64_t block = allocator::block_bytes(bytes);
    EXPECT_GE(block, bytes);
    EXPECT_EQ(block % 64, 0);
    EXPECT_GE(block, previous);
    EXPECT_EQ(allocator::block_bytes(block), block) << "a class must contain its own size";
    if (bytes > 512) {
      EXPECT_LE(block - bytes, bytes / 8 + 1);
    }
    previous = block;
  }
}

TEST_F(AllocatorTest, CountsLivePeakAndCachedExactly) {
  std::byte* a = allocator::allocate(1000, {});
  std::byte* b = allocator::allocate(64, {});
  EXPECT_EQ(allocator::use({}).live_bytes, before_.live_bytes + 1024 + 64);
  allocator::release(a, 1000, {});
  EXPECT_EQ(allocator::use({}).live_bytes, before_.live_bytes + 64);
  EXPECT_EQ(allocator::use({}).cached_bytes, 1024);
  EXPECT_EQ(allocator::use({}).peak_bytes, before_.live_bytes + 1024 + 64);
  allocator::reset_peak({});
  EXPECT_EQ(allocator::use({}).peak_bytes, before_.live_bytes + 64);
  allocator::release(b, 64, {});
  EXPECT_EQ(allocator::use({}).cached_bytes, 1024 + 64);
  allocator::release_cached({});
  EXPECT_EQ(allocator::use({}).cached_bytes, 0);
  EXPECT_EQ(allocator::use({}).live_bytes, before_.live_bytes);
}

TEST_F(AllocatorTest, HandsOutFreedBlocksAgain) {
  std::byte* first = allocator::allocate(5000, {});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  allocator::release(first, 5000, {});
  std::byte* second = allocator::allocate(4990, {});  // the same class
  EXPECT_EQ(first, second);
  EXPECT_EQ(allocator::use({}).system_allocations, before_.system_allocations + 1);
  allocator::release(second, 4990, {});
}

TEST_F(AllocatorTest, FillsWithNanWhenHandedOutAndWhenReturned) {
  allocator::fill_with_nan(true);
  std::byte* block = allocator::allocate(256, {});
  const auto all_ones = [&] {
    return std::all_of(block, block + 256, [](std::byte b) { return b == std::byte{0xFF}; });
  };
  EXPECT_TRUE(all_ones());
  std::fill(block, block + 256, std::byte{0});
  allocator::release(block, 256, {});
  EXPECT_TRUE(all_ones());  // cached, so still ours to read
  allocator::fill_with_nan(false);
  block = allocator::allocate(256, {});
  std::fill(block, block + 256, std::byte{0});
  allocator::release(block, 256, {});
  EXPECT_FALSE(all_ones());
}

TEST_F(AllocatorTest, ImpossibleRequestSaysHowMuch) {
  testing::expect_error(Fault::kSystem, {"no memory for", "smaller batch"},
                        [] { allocator::allocate(int64_t{1} << 60, {}); });
  EXPECT_EQ(allocator::use({}).live_bytes, before_.live_bytes);
}

TEST_F(AllocatorTest, ThreadsShareTheCache) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) {
        const int64_t bytes = 100 + 64 * ((i * 7 + t) % 13);
        std::byte* block = allocator::allocate(bytes, {});
        block[0] = block[bytes - 1] = std::byte{1};
        allocator::release(block, bytes, {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator::use({}).live_bytes, before_.live_bytes);
}

}  // namespace
}  // namespace longhaul
