#include "parallel/tree_reduction.h"

#include <gtest/gtest.h>

#include "kernels/error.h"

namespace longhaul {
namespace {

TEST(Slots, DivideEvenlyAndInOrder) {
  EXPECT_EQ(slots_of_rank(12, 4, 0), (SlotRange{0, 3}));
  EXPECT_EQ(slots_of_rank(12, 4, 3), (SlotRange{9, 12}));
  EXPECT_THROW(slots_of_rank(6, 4, 0), Error);
  EXPECT_THROW(slots_of_rank(0, 1, 0), Error);
}

TEST(Tree, SplitsAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(left_slots(2), 1);
  EXPECT_EQ(left_slots(3), 2);
  EXPECT_EQ(left_slots(4), 2);
  EXPECT_EQ(left_slots(7), 4);
  EXPECT_EQ(left_slots(8), 4);
  EXPECT_THROW(left_slots(1), Error);
}

TEST(Tree, KnowsItsNodes) {
  // 7 = ((0 1)(2 3)) + ((4 5) 6)
  EXPECT_TRUE(is_tree_node(7, {0, 7}));
  EXPECT_TRUE(is_tree_node(7, {2, 4}));
  EXPECT_TRUE(is_tree_node(7, {4, 7}));
  EXPECT_TRUE(is_tree_node(7, {6, 7}));
  EXPECT_FALSE(is_tree_node(7, {1, 3}));
  EXPECT_FALSE(is_tree_node(7, {5, 7}));
  EXPECT_FALSE(is_tree_node(7, {0, 6}));
}

TEST(SlotAccumulation, MergesSiblingsAsABinaryCounter) {
  SlotAccumulation accumulation(4);
  std::vector<int64_t> positions, merges;
  for (int64_t slot = 0; slot < 4; ++slot) {
    positions.push_back(accumulation.push(slot));
    for (const auto& merge : accumulation.merge()) {
      EXPECT_EQ(merge.from, merge.into + 1);
      merges.push_back(merge.into);
    }
  }
  EXPECT_EQ(positions, (std::vector<int64_t>{0, 1, 1, 2}));
  EXPECT_EQ(merges, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(accumulation.partials(), (std::vector<SlotRange>{{0, 4}}));
}

TEST(SlotAccumulation, RefusesSlotsOutOfOrder) {
  SlotAccumulation accumulation(4);
  accumulation.push(0);
  EXPECT_THROW(accumulation.push(2), Error);
}

TEST(SlotAccumulation, RemainingAreTheMaximalSubtreesOfTheRange) {
  EXPECT_EQ(SlotAccumulation::remaining(6, {0, 3}), (std::vector<SlotRange>{{0, 2}, {2, 3}}));
  EXPECT_EQ(SlotAccumulation::remaining(6, {3, 6}), (std::vector<SlotRange>{{3, 4}, {4, 6}}));
  EXPECT_EQ(SlotAccumulation::remaining(6, {4, 6}), (std::vector<SlotRange>{{4, 6}}));
  EXPECT_EQ(SlotAccumulation::remaining(7, {0, 7}), (std::vector<SlotRange>{{0, 7}}));
}

TEST(SlotAccumulation, EveryRangeIsCoveredInOrderByNodes) {
  for (int64_t slots = 1; slots <= 40; ++slots) {
    for (int64_t ranks = 1; ranks <= slots; ++ranks) {
      if (slots % ranks != 0) continue;
      for (int rank = 0; rank < ranks; ++rank) {
        const SlotRange own = slots_of_rank(slots, static_cast<int>(ranks), rank);
        int64_t next = own.begin;
        for (const SlotRange& node : SlotAccumulation::remaining(slots, own)) {
          EXPECT_EQ(node.begin, next);
          EXPECT_TRUE(is_tree_node(slots, node));
          next = node.end;
        }
        EXPECT_EQ(next, own.end);
      }
    }
  }
}

TEST(SlotAccumulation, NeedsLogarithmicallyManyBuffers) {
  EXPECT_EQ(SlotAccumulation::buffers_needed(1, {0, 1}), 1);
  EXPECT_EQ(SlotAccumulation::buffers_needed(2, {0, 2}), 2);
  EXPECT_EQ(SlotAccumulation::buffers_needed(8, {0, 8}), 4);
  EXPECT_EQ(SlotAccumulation::buffers_needed(1024, {0, 1024}), 11);
  EXPECT_EQ(SlotAccumulation::buffers_needed(8, {6, 7}), 1);
}

}  // namespace
}  // namespace longhaul
