#include "parallel/watchdog.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/parallel/thread_communicator.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// Takes the place of the end of the job: keeps the message.
class Ending {
 public:
  std::function<void(const std::string&)> terminate() {
    return [this](const std::string& message) {
      const std::lock_guard lock(mutex_);
      if (!message_) message_ = message;
      changed_.notify_all();
    };
  }
  /// The message, if it comes in time.
  std::optional<std::string> wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return message_.has_value(); });
    return message_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> message_;
};

TEST(Watchdog, NamesRankStepAndPhaseOfAHang) {
  const auto group = make_single_communicator();
  Ending ending;
  Watchdog watchdog(*group, {.timeout_seconds = 0.2, .terminate = ending.terminate()});
  watchdog.beat(17);
  const Watchdog::Phase phase(watchdog, "loading data");
  const auto begin = std::chrono::steady_clock::now();
  const auto message = ending.wait(10s);
  ASSERT_TRUE(message);
  EXPECT_THAT(*message, HasSubstr("rank 0 "));
  EXPECT_THAT(*message, HasSubstr("step 17"));
  EXPECT_THAT(*message, HasSubstr("'loading data'"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 150ms);
}

TEST(Watchdog, BeatsAndPhasesAreProgress) {
  const auto group = make_single_communicator();
  Ending ending;
  Watchdog watchdog(*group, {.timeout_seconds = 0.5, .terminate = ending.terminate()});
  for (int step = 0; step < 10; ++step) {
    watchdog.beat(step);
    std::this_thread::sleep_for(60ms);
    const Watchdog::Phase phase(watchdog, "forward");
    std::this_thread::sleep_for(60ms);
  }
  EXPECT_FALSE(ending.wait(0ms));
}

TEST(Watchdog, APhaseMayTakeItsAllowance) {
  const auto group = make_single_communicator();
  Ending ending;
  Watchdog watchdog(*group, {.timeout_seconds = 0.2, .terminate = ending.terminate()});
  {
    const Watchdog::Phase save(watchdog, "save", 30);
    const Watchdog::Phase inner(watchdog, "fsync");
    std::this_thread::sleep_for(700ms);
  }
  EXPECT_FALSE(ending.wait(0ms));
  EXPECT_TRUE(ending.wait(10s));  // afterwards the old limit holds
}

TEST(Watchdog, ZeroTurnsItOff) {
  const auto group = make_single_communicator();
  Ending ending;
  const Watchdog watchdog(*group,
                          {.timeout_seconds = 0, .orphaned = [] { return true; }, .terminate = ending.terminate()});
  EXPECT_FALSE(ending.wait(100ms));
}

TEST(Watchdog, AnOrphanEnds) {
  const auto group = make_single_communicator();
  Ending ending;
  std::atomic<bool> orphaned = false;
  const Watchdog watchdog(
      *group, {.timeout_seconds = 100, .orphaned = [&] { return orphaned.load(); }, .terminate = ending.terminate()});
  EXPECT_FALSE(ending.wait(50ms));
  orphaned = true;
  const auto message = ending.wait(10s);
  ASSERT_TRUE(message);
  EXPECT_THAT(*message, HasSubstr("gone"));
}

TEST(Watchdog, AWaitingRankLetsTheCulpritSpeakFirst) {
  std::array<Ending, 2> endings;
  std::array<std::chrono::steady_clock::time_point, 2> times;
  testing::run_ranks(2, [&](Communicator& group) {
    Ending& ending = endings[group.rank()];
    Watchdog watchdog(group, {.timeout_seconds = 0.3,
                              .waiting_for_peers = [&] { return group.rank() == 0; },
                              .terminate =
                                  [&, terminate = ending.terminate()](const std::string& message) {
                                    times[group.rank()] = std::chrono::steady_clock::now();
                                    terminate(message);
                                  }});
    watchdog.beat(3);
    EXPECT_TRUE(ending.wait(20s));
    group.barrier();
  });
  EXPECT_THAT(*endings[1].wait(0ms), HasSubstr("rank 1 has made no progress"));
  EXPECT_LT(times[1], times[0]);
}

TEST(Watchdog, NamesANeighbourThatFellSilent) {
  Ending ending;
  testing::run_ranks(2, [&](Communicator& group) {
    if (group.rank() == 1) {
      ending.wait(20s);  // no watchdog, no signs: as if stopped
      return;
    }
    Watchdog watchdog(group, {.timeout_seconds = 0.3, .terminate = ending.terminate()});
    for (int step = 0; step < 1000 && !ending.wait(10ms); ++step) watchdog.beat(step);
  });
  ASSERT_TRUE(ending.wait(0ms));
  EXPECT_THAT(*ending.wait(0ms), HasSubstr("no sign of life from rank 1"));
}

TEST(Watchdog, AnEarlyGoodbyeIsNoAlarm) {
  Ending ending;
  testing::run_ranks(3, [&](Communicator& group) {
    Watchdog watchdog(group, {.timeout_seconds = 0.3, .terminate = ending.terminate()});
    if (group.rank() == 1) return;  // done before the others
    for (int step = 0; step < 100; ++step) {
      watchdog.beat(step);
      std::this_thread::sleep_for(10ms);
    }
  });
  EXPECT_FALSE(ending.wait(0ms));
}

}  // namespace
}  // namespace longhaul
