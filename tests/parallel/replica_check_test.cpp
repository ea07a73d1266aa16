#include "parallel/replica_check.h"

#include <gmock/gmock.h>

#include <bit>

#include "core/comm/agreement.h"
#include "tests/parallel/thread_communicator.h"
#include "tests/parallel/tiny_model.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using testing::TinyModel;

void flip_bit(const Variable& variable, int64_t element, int bit) {
  float& value = variable.value().data<float>()[element];
  value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ (1u << bit));
}

TEST(ReplicaCheck, AcceptsEqualReplicas) {
  testing::run_ranks(3, [](Communicator& group) {
    const TinyModel model;
    EXPECT_NO_THROW(check_replicas(group, model.store));
  });
}

TEST(ReplicaCheck, NamesTensorAndRankOfOneFlippedBit) {
  for (const int bit : {0, 13, 31}) {
    const auto failures = testing::run_ranks_collecting(3, [&](Communicator& group) {
      const TinyModel model;
      if (group.rank() == 1) flip_bit(model.store.find("gain").variable, 64, bit);
      check_replicas(group, model.store);
    });
    for (const auto& failure : failures) {
      try {
        ASSERT_TRUE(failure);
        std::rethrow_exception(failure);
      } catch (const AgreedError& error) {
        EXPECT_THAT(error.what(), HasSubstr("'gain'"));
        EXPECT_THAT(error.what(), HasSubstr("rank 1 of 3"));
        EXPECT_EQ(error.fault(), Fault::kSystem);
      }
    }
  }
}

TEST(ReplicaCheck, TheMajorityIsRight) {
  const auto failures = testing::run_ranks_collecting(4, [&](Communicator& group) {
    const TinyModel model;
    if (group.rank() == 0) flip_bit(model.store.find("head").variable, 0, 3);
    check_replicas(group, model.store);
  });
  try {
    ASSERT_TRUE(failures[2]);
    std::rethrow_exception(failures[2]);
  } catch (const AgreedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 of 4"));
  }
}

TEST(ReplicaCheck, AloneThereIsNothingToCompare) {
  const auto group = make_single_communicator();
  const TinyModel model;
  EXPECT_NO_THROW(check_replicas(*group, model.store));
}

}  // namespace
}  // namespace longhaul
