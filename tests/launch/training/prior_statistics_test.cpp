#include "launch/training/prior_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/error_check.h"
#include "tests/parallel/thread_communicator.h"

namespace longhaul {
namespace {

constexpr int64_t kSlots = 8;

int64_t length_of(int64_t slot) { return slot % 3 == 1 ? 2 : 4; }
/// The first regime's membership of every token of a slot.
float share_of(int64_t slot, int64_t layer) { return layer == 0 ? 0.1f * static_cast<float>(slot) : 0.95f; }

/// One row; the last token has no target.
Batch slot_batch(int64_t slot) {
  const size_t length = static_cast<size_t>(length_of(slot));
  std::vector<int32_t> targets(length, 1);
  targets.back() = -1;
  return make_batch(1, length_of(slot), std::vector<int32_t>(length), targets, {}, {slot});
}

/// Two layers of two regimes; only the second has a prior.
PriorRecord slot_record(int64_t slot) {
  PriorRecord record;
  for (int64_t layer = 0; layer < 2; ++layer) {
    const Tensor memberships = Tensor::empty({length_of(slot), 2}, DType::f32);
    for (int64_t t = 0; t < length_of(slot); ++t) {
      memberships.data<float>()[2 * t] = share_of(slot, layer);
      memberships.data<float>()[2 * t + 1] = 1 - share_of(slot, layer);
    }
    record.layers.push_back({memberships, memberships, {}});
  }
  const float p = 1.0f / static_cast<float>(slot + 1);
  record.layers[1].alignment = Tensor::from<float>({2, 2}, {p, 1 - p, 1 - p, p});
  return record;
}

PriorMemory empty_memory() { return PriorMemory({.layers = 2, .regimes = 2}); }

std::vector<LayerMemberships> measure(Communicator& group, PriorMemory& memory) {
  PriorStatistics statistics(&memory, kSlots);
  const int64_t own = kSlots / group.size();
  for (int64_t slot = own * group.rank(); slot < own * (group.rank() + 1); ++slot) {
    statistics.add(slot, slot_record(slot), slot_batch(slot));
  }
  std::vector<LayerMemberships> slots = statistics.gather(group);
  statistics.update(memory);
  return slots;
}

TEST(PriorStatistics, SlotsKeepTheirTokensWithTargets) {
  PriorMemory memory = empty_memory();
  const std::vector<LayerMemberships> slots = measure(*make_single_communicator(), memory);
  ASSERT_EQ(slots.size(), static_cast<size_t>(kSlots));
  EXPECT_EQ(slots[1][0].tokens, 1);
  EXPECT_EQ(slots[2][0].tokens, 3);
  EXPECT_EQ(slots[2][0].saturated, 0);
  EXPECT_EQ(slots[2][1].saturated, 3);
  EXPECT_NEAR(slots[2][0].sums[0], 0.6, 1e-6);
  EXPECT_NEAR(slots[2][0].entropy, -3 * (0.2 * std::log(0.2) + 0.8 * std::log(0.8)), 1e-5);
}

TEST(PriorStatistics, TheMemoryTakesInTheMeanOfTheSlotsOfEachLength) {
  PriorMemory memory = empty_memory();
  measure(*make_single_communicator(), memory);
  ASSERT_EQ(memory.entries().size(), 2u);
  double share = 0, p = 0;  // slots 1, 4 and 7 play length 2
  for (const int64_t slot : {1, 4, 7}) {
    share += share_of(slot, 0) / 3;
    p += 1.0 / static_cast<double>(slot + 1) / 3;
  }
  EXPECT_NEAR(memory.memberships(0, 2, DType::f64).data<double>()[2], share, 1e-7);
  EXPECT_NEAR(memory.alignment(1, 2, DType::f64).data<double>()[3], p, 1e-7);
  EXPECT_EQ(memory.alignment(0, 2, DType::f64).to_vector<double>(), std::vector<double>(4));  // has no prior
  EXPECT_EQ(memory.entries().at(4).updates, 1);
}

TEST(PriorStatistics, AreTheSameOnAnyRanks) {
  PriorMemory expected_memory = empty_memory();
  const std::vector<LayerMemberships> expected = measure(*make_single_communicator(), expected_memory);
  for (const int ranks : {2, 4}) {
    testing::run_ranks(ranks, [&](Communicator& member) {
      PriorMemory memory = empty_memory();
      const std::vector<LayerMemberships> found = measure(member, memory);
      for (size_t slot = 0; slot < found.size(); ++slot) {
        for (size_t layer = 0; layer < 2; ++layer) {
          EXPECT_EQ(found[slot][layer].tokens, expected[slot][layer].tokens);
          EXPECT_EQ(found[slot][layer].saturated, expected[slot][layer].saturated);
          EXPECT_EQ(found[slot][layer].entropy, expected[slot][layer].entropy);
          EXPECT_EQ(found[slot][layer].sums, expected[slot][layer].sums);
        }
      }
      ASSERT_EQ(memory.entries().size(), 2u);
      for (const auto& [length, entry] : expected_memory.entries()) {
        EXPECT_EQ(memory.entry(length).memberships.to_vector<double>(), entry.memberships.to_vector<double>());
        EXPECT_EQ(memory.entry(length).alignment.to_vector<double>(), entry.alignment.to_vector<double>());
      }
    });
  }
}

TEST(PriorStatistics, ModelsWithoutMembershipsExchangeNothing) {
  PriorStatistics statistics(nullptr, kSlots);
  statistics.add(0, {}, slot_batch(0));
  testing::run_ranks(2, [&](Communicator& member) {
    if (!member.is_root()) return;  // never calls
    EXPECT_TRUE(PriorStatistics(nullptr, kSlots).gather(member).empty());
  });
  testing::expect_error(Fault::kInternal, {"2 layers", "expected 0"},
                        [&] { statistics.add(0, slot_record(0), slot_batch(0)); });
}

TEST(PriorStatistics, ValuesThatAreNotFiniteDoNoHarm) {
  PriorMemory memory = empty_memory();
  PriorStatistics statistics(&memory, 1);
  PriorRecord record = slot_record(0);
  record.layers[0].mean_memberships.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  statistics.add(0, record, slot_batch(0));
  EXPECT_EQ(statistics.gather(*make_single_communicator()).size(), 1u);
}

TEST(MembershipSummary, TakesMeansOverLayersAndTheWorstCollapse) {
  LayerMemberships layers(2), more(2);
  layers[0] = {.regimes = 2, .tokens = 4, .saturated = 3, .entropy = 4 * std::log(2.0) / 2, .sums = {1, 3}};
  layers[1] = {.regimes = 2, .tokens = 4, .saturated = 0, .entropy = 4 * std::log(2.0), .sums = {2, 2}};
  const MembershipSummary summary = summarize(layers);
  EXPECT_DOUBLE_EQ(summary.saturation, 0.375);
  EXPECT_DOUBLE_EQ(summary.relative_entropy, 0.75);
  EXPECT_DOUBLE_EQ(summary.collapse, 0.75);
  EXPECT_EQ(summarize({}).collapse, 0);

  more[0] = {.regimes = 2, .tokens = 4, .saturated = 1, .entropy = 0, .sums = {4, 0}};
  more[1] = layers[1];
  LayerMemberships sum;
  add_memberships(sum, layers);
  add_memberships(sum, more);
  EXPECT_DOUBLE_EQ(summarize(sum).saturation, 0.25);
  EXPECT_DOUBLE_EQ(summarize(sum).collapse, 0.625);
}

}  // namespace
}  // namespace longhaul
