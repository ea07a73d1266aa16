#include "core/comm/agreement.h"

#include <gmock/gmock.h>

#include "core/comm/rank_list.h"
#include "tests/parallel/thread_communicator.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

/// What each rank threw, as an AgreedError; fails the test when a rank threw anything else or nothing.
std::vector<AgreedError> agreed_errors(int ranks, const std::function<void(Communicator&)>& body) {
  std::vector<AgreedError> errors;
  for (const auto& failure : testing::run_ranks_collecting(ranks, body)) {
    try {
      if (failure) std::rethrow_exception(failure);
      ADD_FAILURE() << "a rank did not fail";
    } catch (const AgreedError& error) {
      errors.push_back(error);
    }
  }
  return errors;
}

TEST(SingleCommunicator, CollectivesAreTheIdentity) {
  const auto group = make_single_communicator();
  std::vector<int64_t> values{3, -4};
  group->sum(values);
  group->max(values);
  group->min(values);
  EXPECT_EQ(values, (std::vector<int64_t>{3, -4}));
  const std::vector<std::byte> bytes{std::byte{7}};
  EXPECT_EQ(group->gather_all(bytes), std::vector<std::vector<std::byte>>{bytes});
  EXPECT_EQ(group->size(), 1);
  EXPECT_TRUE(group->is_root());
}

TEST(SingleCommunicator, HasNobodyToTalkTo) {
  const auto group = make_single_communicator();
  std::vector<std::byte> bytes(1);
  EXPECT_THROW(group->send(bytes, 1, 0), Error);
  EXPECT_THROW(group->receive(bytes, 1, 0), Error);
}

TEST(Agree, PassesWhenNobodyFails) {
  testing::run_ranks(3, [](Communicator& group) {
    bool ran = false;
    agree(group, "phase", [&] { ran = true; });
    EXPECT_TRUE(ran);
  });
}

TEST(Agree, LowestFailureBecomesEveryonesWithItsFault) {
  const auto errors = agreed_errors(4, [](Communicator& group) {
    agree(group, "reading", [&] {
      if (group.rank() == 1) throw user_error("file a: missing");
      if (group.rank() == 3) throw system_error("disk on fire");
    });
  });
  ASSERT_EQ(errors.size(), 4u);
  for (const AgreedError& error : errors) {
    EXPECT_STREQ(error.what(), "rank 1: file a: missing");
    EXPECT_EQ(error.fault(), Fault::kUser);
    EXPECT_EQ(error.rank(), 1);
  }
}

TEST(Agree, ForeignExceptionsAreInternalAndNameThePhase) {
  const auto errors = agreed_errors(2, [](Communicator& group) {
    agree(group, "reading", [&] {
      if (group.rank() == 0) throw std::runtime_error("boom");
    });
  });
  for (const AgreedError& error : errors) {
    EXPECT_STREQ(error.what(), "rank 0: reading: boom");
    EXPECT_EQ(error.fault(), Fault::kInternal);
  }
}

TEST(Agree, AloneThereIsNoRankInTheMessage) {
  const auto group = make_single_communicator();
  try {
    agree(*group, "reading", [] { throw user_error("file a: missing"); });
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_STREQ(error.what(), "file a: missing");
  }
}

TEST(RequireEqual, AcceptsEqualMaps) {
  testing::run_ranks(3, [](Communicator& group) {
    EXPECT_NO_THROW(require_equal(group, "configuration", {{"model.layers", "4"}, {"empty", ""}}));
  });
}

TEST(RequireEqual, NamesKeyValuesAndRanks) {
  const auto errors = agreed_errors(4, [](Communicator& group) {
    require_equal(group, "configuration", {{"a", "1"}, {"model.layers", group.rank() == 2 ? "6" : "4"}, {"z", "1"}});
  });
  for (const AgreedError& error : errors) {
    EXPECT_STREQ(error.what(),
                 "configuration differs between ranks: 'model.layers' is '4' on ranks 0, 1, 3, '6' on rank 2; start "
                 "every rank with the same configuration");
    EXPECT_EQ(error.fault(), Fault::kUser);
  }
}

TEST(RequireEqual, NamesAMissingKey) {
  const auto errors = agreed_errors(2, [](Communicator& group) {
    std::map<std::string, std::string> values{{"a", "1"}};
    if (group.rank() == 1) values["build"] = "x";
    require_equal(group, "build", values);
  });
  for (const AgreedError& error : errors)
    EXPECT_THAT(error.what(), HasSubstr("'build' is missing on rank 0, 'x' on rank 1"));
}

TEST(RankList, ShortensLongLists) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({0, 2, 5}), "ranks 0, 2, 5");
  EXPECT_EQ(rank_list({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace longhaul
