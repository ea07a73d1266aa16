#include "tests/parallel/thread_communicator.h"

#include <gtest/gtest.h>

#include <array>

namespace longhaul {
namespace {

/// The promise of MPI that the reductions build on: several partial sums travel under one tag.
TEST(ThreadCommunicator, MessagesReachReceivesInTheOrderTheyWerePosted) {
  testing::run_ranks(2, [](Communicator& group) {
    if (group.rank() == 1) {
      for (const int number : {1, 2}) group.send(std::as_bytes(std::span(&number, 1)), 0, 7)->wait();
      group.barrier();
      return;
    }
    std::array<int, 2> received{};
    const auto first = group.receive(std::as_writable_bytes(std::span(&received[0], 1)), 1, 7);
    const auto second = group.receive(std::as_writable_bytes(std::span(&received[1], 1)), 1, 7);
    group.barrier();
    EXPECT_TRUE(second->test());
    EXPECT_TRUE(first->test());
    EXPECT_EQ(received, (std::array{1, 2}));
  });
}

}  // namespace
}  // namespace longhaul
