#include "parallel/run_directory.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "core/io/file.h"
#include "parallel/run_lock.h"
#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // the fixture

/// A child process; it holds what `body` made until it is told to go (or is killed).
class Child {
 public:
  explicit Child(const std::function<std::shared_ptr<void>()>& body) {
    int result[2], release[2];
    if (pipe(result) != 0 || pipe(release) != 0) throw std::runtime_error("pipe failed");
    process_ = fork();
    if (process_ == 0) {
      close(release[1]);
      std::string answer = "held";
      std::shared_ptr<void> held;
      try {
        held = body();
      } catch (const std::exception& error) {
        answer = error.what();
      }
      char byte = 0;
      if (write(result[1], answer.data(), answer.size()) < 0) _exit(1);
      close(result[1]);
      if (read(release[0], &byte, 1) < 0) _exit(1);
      held.reset();
      _exit(0);
    }
    close(result[1]);
    close(release[0]);
    result_ = result[0];
    release_ = release[1];
  }
  ~Child() {
    release();
    close(result_);
  }
  /// "held", or the error message.
  std::string answer() {
    std::string text(4000, '\0');
    const ssize_t count = read(result_, text.data(), text.size());
    return text.substr(0, count < 0 ? 0 : static_cast<size_t>(count));
  }
  void release() {
    if (release_ >= 0) close(release_);
    release_ = -1;
    if (process_ > 0) waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  void kill() {
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  pid_t process() const { return process_; }

 private:
  pid_t process_;
  int result_, release_;
};

std::vector<std::string> auxiliary_files(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with("lock")) names.push_back(entry.path().filename());
  }
  return names;
}

TEST(RunDirectory, IdentityIsMadeOnceAndSharedByAllRanks) {
  TemporaryDirectory directory;
  std::set<std::string> ids, sessions;
  for (const int ranks : {1, 4}) {
    std::mutex mutex;
    run_ranks(ranks, [&](Communicator& group) {
      const RunDirectory run = RunDirectory::acquire(group, directory.path() / "deep/run");
      const std::lock_guard lock(mutex);
      ids.insert(run.run_id());
      sessions.insert(run.session());
      EXPECT_EQ(run.notice(), "");
    });
  }
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids.begin()->size(), 32u);
  EXPECT_EQ(sessions.size(), 2u);
  EXPECT_EQ(RunDirectory::open_unlocked(directory.path() / "deep/run").run_id(), *ids.begin());
  EXPECT_TRUE(auxiliary_files(directory.path() / "deep/run").empty());
}

TEST(RunDirectory, DamagedIdentityIsNamed) {
  TemporaryDirectory directory;
  write_file_durably(directory / "run.json", "{\"run_id\":");
  const auto group = make_single_communicator();
  EXPECT_THAT(error_of([&] { RunDirectory::acquire(*group, directory.path()); }), HasSubstr("damaged run identity"));
  EXPECT_TRUE(auxiliary_files(directory.path()).empty());
}

TEST(RunDirectory, PathThatIsAFileIsRefused) {
  TemporaryDirectory directory;
  write_file_durably(directory / "run", "text");
  const auto group = make_single_communicator();
  EXPECT_THAT(error_of([&] { RunDirectory::acquire(*group, directory / "run"); }), HasSubstr("a file of that name"));
}

TEST(RunLock, LiveHolderIsNamed) {
  TemporaryDirectory directory;
  Child child([&] { return std::make_shared<RunLock>(directory.path()); });
  ASSERT_EQ(child.answer(), "held");
  const std::string error = error_of([&] { RunLock lock(directory.path()); });
  EXPECT_THAT(error, HasSubstr(fmt::format("process {}", child.process())));
  EXPECT_THAT(error, HasSubstr("host "));
  child.release();
  EXPECT_NO_THROW(RunLock{directory.path()});
  EXPECT_TRUE(auxiliary_files(directory.path()).empty());
}

TEST(RunLock, SlurmJobIsNamed) {
  TemporaryDirectory directory;
  LockHolder holder = LockHolder::current("feed");
  holder.slurm_job = "4711";
  write_file_durably(directory / "lock", holder.encode());
  EXPECT_THAT(error_of([&] { RunLock lock(directory.path()); }), HasSubstr("Slurm job 4711"));
}

TEST(RunLock, KilledHolderIsTakenOverFrom) {
  TemporaryDirectory directory;
  Child child([&] { return std::make_shared<RunLock>(directory.path()); });
  ASSERT_EQ(child.answer(), "held");
  const pid_t process = child.process();
  child.kill();
  const RunLock lock(directory.path());
  EXPECT_THAT(lock.recovered_from(), HasSubstr(fmt::format("process {}", process)));
  EXPECT_EQ(auxiliary_files(directory.path()), (std::vector<std::string>{"lock"}));
}

TEST(RunLock, OnlyProvablyDeadHoldersAreDead) {
  const LockHolder self = LockHolder::current("mine");
  LockHolder holder = self;
  EXPECT_FALSE(provably_dead(holder, self));
  holder.process_start += 1;  // the number was given to another process
  EXPECT_TRUE(provably_dead(holder, self));
  holder.host = "elsewhere";
  EXPECT_FALSE(provably_dead(holder, self));
  holder = self;
  holder.process_start += 1;
  holder.boot_id = "another boot, or another machine of that name";
  EXPECT_FALSE(provably_dead(holder, self));
  holder = self;
  holder.process_start += 1;
  holder.process_namespace = "pid:[1]";  // another container
  EXPECT_FALSE(provably_dead(holder, self));
}

TEST(RunLock, RequeuedSlurmJobTakesOverFromItsEarlierIncarnation) {
  LockHolder self = LockHolder::current("mine");
  self.slurm_job = "12";
  self.slurm_restart = 2;
  LockHolder holder = self;
  holder.host = "elsewhere";
  EXPECT_FALSE(provably_dead(holder, self));  // the same incarnation: two steps of one job
  holder.slurm_restart = 1;
  EXPECT_TRUE(provably_dead(holder, self));
}

TEST(RunLock, UnreadableLockIsRefusedWithAdvice) {
  TemporaryDirectory directory;
  write_file_durably(directory / "lock", "");
  EXPECT_THAT(error_of([&] { RunLock lock(directory.path()); }), HasSubstr("delete it if no job uses"));
}

/// Starts three processes at once, `rounds` times; each answers and holds on. Exactly one must have the lock.
void race(int rounds, const std::function<void(const fs::path&)>& prepare) {
  for (int round = 0; round < rounds; ++round) {
    TemporaryDirectory directory;
    prepare(directory.path());
    int start[2];
    ASSERT_EQ(pipe(start), 0);
    const auto contend = [&]() -> std::shared_ptr<void> {
      close(start[1]);
      char byte = 0;
      if (read(start[0], &byte, 1) < 0) throw std::runtime_error("read failed");  // end of file for all at once
      return std::make_shared<RunLock>(directory.path());
    };
    Child first(contend), second(contend), third(contend);
    close(start[1]);
    close(start[0]);
    int held = 0;
    for (Child* child : {&first, &second, &third}) {
      const std::string answer = child->answer();
      if (answer == "held") {
        ++held;
      } else {
        EXPECT_THAT(answer, HasSubstr("in use by host"));
      }
    }
    ASSERT_EQ(held, 1) << "round " << round;
  }
}

TEST(RunLock, OfSimultaneousStartsExactlyOneWins) {
  race(100, [](const fs::path&) {});
}

TEST(RunLock, OfSimultaneousRecoveriesExactlyOneWins) {
  race(100, [](const fs::path& directory) {
    LockHolder dead = LockHolder::current("dead");
    dead.process_start += 1;
    write_file_durably(directory / "lock", dead.encode());
  });
}

TEST(RunLock, RecoveryThatDiedHalfwayIsItselfRecovered) {
  race(20, [](const fs::path& directory) {
    LockHolder dead = LockHolder::current("dead"), recoverer = LockHolder::current("recoverer");
    dead.process_start += 1;
    recoverer.process_start += 1;
    write_file_durably(directory / "lock", dead.encode());
    write_file_durably(directory / "lock.recovery.dead", recoverer.encode());
  });
}

}  // namespace
}  // namespace longhaul
