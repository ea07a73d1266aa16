#include "parallel/shard_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parallel/tiny_model.h"

namespace longhaul {
namespace {

TEST(ShardLayout, RangesOfAllRanksCoverEverythingOnce) {
  const testing::TinyModel model;
  for (const int ranks : {1, 2, 3, 4, 6, 8}) {
    for (const int64_t bucket_bytes : {int64_t{1}, int64_t{4000}, int64_t{300000}, ShardLayout::kDefaultBucketBytes}) {
      const ShardLayout layout(model.store, ranks, bucket_bytes);
      std::vector<FlatRange> all;
      int64_t total = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        for (const FlatRange& range : layout.ranges(rank)) all.push_back(range);
        total += layout.owned_count(rank);
      }
      std::sort(all.begin(), all.end(), [](const FlatRange& a, const FlatRange& b) { return a.begin < b.begin; });
      int64_t next = 0;
      for (const FlatRange& range : all) {
        EXPECT_EQ(range.begin, next);
        next = range.end;
      }
      EXPECT_EQ(next, model.store.flat_count());
      EXPECT_EQ(total, model.store.flat_count());
    }
  }
}

TEST(ShardLayout, SegmentsBeginAtBlocks) {
  const testing::TinyModel model;
  const ShardLayout layout(model.store, 3, 300000);
  for (size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) {
    for (int rank = 0; rank < 3; ++rank) {
      const auto [begin, end] = layout.owned_blocks(static_cast<int64_t>(bucket), rank);
      if (begin == end) continue;
      EXPECT_EQ(model.store.blocks()[begin].offset, layout.owned(static_cast<int64_t>(bucket), rank).begin);
    }
  }
}

TEST(ShardLayout, BucketsNameTheirParameters) {
  const testing::TinyModel model;  // flat order: head, unused, gain, weight, embedding (two blocks)
  const ShardLayout layout(model.store, 2, 1);
  ASSERT_EQ(layout.buckets().size(), model.store.blocks().size());
  EXPECT_EQ(layout.buckets().front().parameter_begin, 0);
  EXPECT_EQ(layout.buckets().back().parameter_begin, 4);
  EXPECT_EQ(layout.buckets().back().parameter_end, 5);
  const ShardLayout one(model.store, 2, int64_t{1} << 40);
  ASSERT_EQ(one.buckets().size(), 1u);
  EXPECT_EQ(one.buckets()[0].parameter_end, 5);
}

TEST(ShardLayout, DividesByElements) {
  ParameterStore store;
  store.add("weight", {8, ParameterStore::kBlockElements}, WeightDecay::yes, Initialization::normal(1));
  store.finalize();
  const ShardLayout layout(store, 4);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(layout.owned_count(rank), 2 * ParameterStore::kBlockElements);
}

TEST(ShardLayout, PowersOfTwoOwnInHalvingOrder) {
  const testing::TinyModel model;
  const ShardLayout layout(model.store, 8);
  std::vector<int> owners;
  for (int64_t segment = 0; segment < 8; ++segment) owners.push_back(layout.owner(segment));
  EXPECT_EQ(owners, (std::vector<int>{0, 4, 2, 6, 1, 5, 3, 7}));
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(layout.owner(layout.segment_of(rank)), rank);
}

}  // namespace
}  // namespace longhaul
