#include "launch/training/gate_statistics.h"

#include <gtest/gtest.h>

#include "tests/parallel/thread_communicator.h"

namespace longhaul {
namespace {

/// Slot s: four tokens with entropies s/10 + {0, 0.01, 0.02, 0.03}; the last has no target. The second gate sees 1 - x.
Batch slot_batch() { return make_batch(1, 4, {0, 0, 0, 0}, {1, 1, 1, -1}, {}, {0}); }

GateRecord slot_record(int64_t slot) {
  GateRecord record;
  record.blocks.resize(2);
  std::vector<float> values, mirrored;
  for (int i = 0; i < 4; ++i) {
    values.push_back(0.1f * static_cast<float>(slot) + 0.01f * static_cast<float>(i));
    mirrored.push_back(1 - values.back());
  }
  record.blocks[0] = {{}, Tensor::from<float>({4}, values), 0.205f, {0.5, 0.1}};
  record.blocks[1] = {{}, Tensor::from<float>({4}, mirrored), 2.0f, {0.6, 0.2}};
  return record;
}

std::vector<GateMeasurement> measure(Communicator& group, int64_t slots) {
  GateStatistics statistics(2);
  const int64_t own = slots / group.size();
  for (int64_t slot = own * group.rank(); slot < own * (group.rank() + 1); ++slot) {
    statistics.add(slot_record(slot), slot_batch());
  }
  return statistics.measure(group);
}

TEST(GateStatistics, CountsValidTokensOfAllSlots) {
  const auto group = make_single_communicator();
  const std::vector<GateMeasurement> gates = measure(*group, 4);
  EXPECT_EQ(gates[0].entropy.count, 12);
  EXPECT_EQ(gates[0].entropy.median, slot_record(1).blocks[0].entropies.data<float>()[2]);
  EXPECT_EQ(gates[0].fired, 5);  // 0.21, 0.22 and the three of slot 3
  EXPECT_DOUBLE_EQ(gates[0].fire_rate(), 5.0 / 12);
  EXPECT_EQ(gates[0].threshold, 0.205f);
  EXPECT_EQ(gates[1].fired, 0);
}

TEST(GateStatistics, AreTheSameOnAnyRanks) {
  const auto group = make_single_communicator();
  const std::vector<GateMeasurement> expected = measure(*group, 4);
  for (const int ranks : {2, 4}) {
    testing::run_ranks(ranks, [&](Communicator& member) {
      const std::vector<GateMeasurement> found = measure(member, 4);
      for (size_t gate = 0; gate < 2; ++gate) {
        EXPECT_EQ(found[gate].entropy.median, expected[gate].entropy.median);
        EXPECT_EQ(found[gate].entropy.mean, expected[gate].entropy.mean);
        EXPECT_EQ(found[gate].entropy.deviation, expected[gate].entropy.deviation);
        EXPECT_EQ(found[gate].fired, expected[gate].fired);
        EXPECT_EQ(found[gate].threshold, expected[gate].threshold);
      }
    });
  }
}

TEST(GateStatistics, KeepsTheStatesOfTheOnlySlotForUpdatesBefore) {
  GateStatistics statistics(2);
  statistics.add(slot_record(0), slot_batch());
  EXPECT_EQ(statistics.next_states()[1], (EntropyGate::State{0.6, 0.2}));
}

TEST(GateStatistics, NothingValidMeansNoRate) {
  const auto group = make_single_communicator();
  const std::vector<GateMeasurement> gates = GateStatistics(1).measure(*group);
  EXPECT_EQ(gates[0].entropy.count, 0);
  EXPECT_EQ(gates[0].fire_rate(), 0);
  EXPECT_TRUE(GateStatistics(0).measure(*group).empty());
}

}  // namespace
}  // namespace longhaul
