#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "core/comm/agreement.h"
#include "parallel/mpi/mpi_communicator.h"
#include "tests/parallel/mpi_world.h"

namespace longhaul {
namespace {

using testing::mpi_world;

std::vector<std::byte> pattern(int64_t count, int seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 7 + seed * 31) % 251);
  return bytes;
}

/// Both chunk limits: nothing is cut, everything is.
class MpiCommunicatorTest : public ::testing::TestWithParam<int64_t> {
 protected:
  MpiCommunicator group_{GetParam()};
  const int rank_ = group_.rank();
  const int size_ = group_.size();
};
INSTANTIATE_TEST_SUITE_P(Chunks, MpiCommunicatorTest, ::testing::Values(MpiCommunicator::kDefaultChunkBytes, 1024, 24));

TEST_P(MpiCommunicatorTest, IntegersAreReducedOverRanks) {
  std::vector<int64_t> sum(301), most(301), least(301);
  for (int64_t i = 0; i < 301; ++i) sum[i] = most[i] = least[i] = (int64_t{1} << 40) * (rank_ + 1) + i;
  group_.sum(sum);
  group_.max(most);
  group_.min(least);
  for (int64_t i = 0; i < 301; ++i) {
    ASSERT_EQ(sum[i], (int64_t{1} << 40) * size_ * (size_ + 1) / 2 + size_ * i);
    ASSERT_EQ(most[i], (int64_t{1} << 40) * size_ + i);
    ASSERT_EQ(least[i], (int64_t{1} << 40) + i);
  }
}

TEST_P(MpiCommunicatorTest, AssembleKeepsEveryBit) {
  std::vector<double> values(257);
  for (int64_t i = rank_; i < 257; i += size_) values[i] = 1.0 / static_cast<double>(i + 1);
  if (size_ - 1 == rank_) values[0] = 0;
  if (rank_ == 0) values[0] = std::numeric_limits<double>::quiet_NaN();
  if (rank_ == 0) values[256] = -std::numeric_limits<double>::infinity();
  if (rank_ != 0) values[256] = 0;
  group_.assemble(values);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[256], -std::numeric_limits<double>::infinity());
  for (int64_t i = 1; i < 256; ++i) ASSERT_EQ(values[i], 1.0 / static_cast<double>(i + 1));
}

TEST_P(MpiCommunicatorTest, BroadcastFromEveryRoot) {
  for (int root = 0; root < size_; ++root) {
    auto bytes = rank_ == root ? pattern(5000, root) : std::vector<std::byte>(5000);
    group_.broadcast(bytes, root);
    EXPECT_EQ(bytes, pattern(5000, root));
  }
}

TEST_P(MpiCommunicatorTest, GatherAllOfUnequalSizes) {
  const auto all = group_.gather_all(pattern(rank_ * 2999, rank_));
  ASSERT_EQ(static_cast<int>(all.size()), size_);
  for (int rank = 0; rank < size_; ++rank) EXPECT_EQ(all[rank], pattern(rank * 2999, rank));
}

TEST_P(MpiCommunicatorTest, RingOfMessages) {
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  const auto first = pattern(100003, rank_), second = pattern(3, rank_ + 50);
  std::vector<std::byte> got_first(100003), got_second(3);
  std::vector<std::unique_ptr<Transfer>> transfers;
  transfers.push_back(group_.receive(got_first, previous, 5));
  transfers.push_back(group_.receive(got_second, previous, 5));  // same tag: they arrive in order
  transfers.push_back(group_.send(first, next, 5));
  transfers.push_back(group_.send(second, next, 5));
  for (const auto& transfer : transfers) transfer->wait();
  EXPECT_EQ(got_first, pattern(100003, previous));
  EXPECT_EQ(got_second, pattern(3, previous + 50));
  EXPECT_TRUE(transfers[0]->test());
}

TEST_P(MpiCommunicatorTest, AThreadMayTransferDuringCollectives) {
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  const auto mine = pattern(50021, rank_);
  std::vector<std::byte> got(50021);
  std::thread thread([&] {
    for (int round = 0; round < 20; ++round) {
      const auto receive = group_.receive(got, previous, round);
      const auto send = group_.send(mine, next, round);
      receive->wait();
      send->wait();
    }
  });
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> one{1};
    group_.sum(one);
    EXPECT_EQ(one[0], size_);
  }
  thread.join();
  EXPECT_EQ(got, pattern(50021, previous));
  EXPECT_FALSE(group_.waiting());
}

TEST_P(MpiCommunicatorTest, DifferentCallsAreAnErrorOnEveryRank) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  std::vector<int64_t> value{1};
  EXPECT_THROW(rank_ == 0 ? group_.sum(value) : group_.max(value), Error);
  group_.barrier();
}

TEST_P(MpiCommunicatorTest, DifferentSizesAreAnErrorOnEveryRank) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  std::vector<int64_t> values(rank_ == 0 ? 3 : 4);
  EXPECT_THROW(group_.sum(values), Error);
  std::vector<std::byte> bytes(8);
  EXPECT_THROW(group_.broadcast(bytes, rank_ == 0 ? 0 : 1), Error);
  group_.barrier();
}

TEST_P(MpiCommunicatorTest, AMessageOfAnotherSizeIsAnError) {
  if (size_ == 1 || GetParam() < 1024) GTEST_SKIP() << "needs two ranks and messages in one piece";
  std::vector<std::byte> bytes(100);
  for (const size_t expected : {60u, 120u}) {
    if (rank_ == 0) group_.send(bytes, 1, 9)->wait();
    if (rank_ == 1) {
      std::vector<std::byte> room(expected);
      const auto receive = group_.receive(room, 0, 9);
      EXPECT_THROW(receive->wait(), Error);
    }
    group_.barrier();
  }
}

TEST_P(MpiCommunicatorTest, AnAbandonedReceiveLetsGoOfItsBuffer) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  if (rank_ == 0) {
    std::vector<std::byte> room(8);
    group_.receive(room, 1, 77);
  }
  group_.barrier();
}

TEST_P(MpiCommunicatorTest, FailureOfTheLastRankIsEveryones) {
  try {
    agree(group_, "phase", [&] {
      if (rank_ == size_ - 1) throw user_error("file b: truncated");
    });
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_THAT(error.what(), ::testing::EndsWith("file b: truncated"));
    EXPECT_EQ(error.rank(), size_ - 1);
  }
}

TEST(MpiCommunicator, RefusesImpossibleChunks) {
  EXPECT_THROW(MpiCommunicator(0), Error);
  EXPECT_THROW(MpiCommunicator(int64_t{1} << 31), Error);
}

TEST(World, KnowsTheLibrary) {
  EXPECT_TRUE(mpi_world().uses_mpi());
  EXPECT_FALSE(mpi_version_compiled().empty());
  EXPECT_FALSE(mpi_version_loaded().empty());
}

}  // namespace
}  // namespace longhaul
