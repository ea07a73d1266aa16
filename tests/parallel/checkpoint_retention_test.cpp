#include "parallel/checkpoint_retention.h"

#include <gmock/gmock.h>

#include <atomic>

#include "core/io/file.h"
#include "parallel/checkpoint_directory.h"
#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing;  // the fixture

std::vector<std::string> directories(const fs::path& run) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Retention, KeepsTheHighestStepsAndTheMilestones) {
  EXPECT_THAT(steps_to_remove({30, 9000, 10, 10000, 20}, 10000, {2, 0}), ElementsAre(30, 20, 10));
  EXPECT_THAT(steps_to_remove({10, 20, 30, 40}, 40, {1, 20}), ElementsAre(30, 10));
  EXPECT_THAT(steps_to_remove({10}, 10, {1, 0}), IsEmpty());
  EXPECT_THAT(steps_to_remove({}, 10, {1, 0}), IsEmpty());
  EXPECT_THAT(steps_to_remove({10, 20, 30}, 10, {1, 0}), ElementsAre(20));  // never the one just written
  EXPECT_THAT(steps_to_remove({10, 10, 20}, 20, {2, 0}), IsEmpty());        // a copy is not a second checkpoint
}

TEST(Retention, ValuesOutsideTheRangeAreRejected) {
  for (const int64_t bad : {int64_t{-1}, int64_t{0}, int64_t{1'000'001}, INT64_MIN, INT64_MAX}) {
    EXPECT_THAT(error_of([&] { RetentionOptions{bad, 0}.validate(); }), HasSubstr("checkpoint.keep_last"));
    EXPECT_THROW(steps_to_remove({1, 2}, 2, {bad, 0}), Error);
  }
  EXPECT_THAT(error_of([] { RetentionOptions{1, -1}.validate(); }), HasSubstr("checkpoint.keep_every = -1"));
  EXPECT_NO_THROW((RetentionOptions{1, 0}.validate()));
}

TEST(Retention, WriterRefusesSuchOptionsOnAllRanks) {
  TemporaryDirectory directory;
  std::atomic<int> refused = 0;
  run_ranks(2, [&](Communicator& group) {
    const RunDirectory run = RunDirectory::acquire(group, directory.path());
    try {
      CheckpointWriter writer(group, run, {{-1, 0}, SaveErrorPolicy::stop, true});
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.fault(), Fault::kUser);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST(Retention, SavesKeepTheLastTwo) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 1, {999, 1000, 1001}, {{2, 0}, SaveErrorPolicy::stop, false});
  EXPECT_THAT(directories(directory.path()), ElementsAre("step_00001000", "step_00001001"));
}

TEST(Retention, ForeignDamagedAndSetAsideDirectoriesStay) {
  TemporaryDirectory directory, other;
  save_steps(other.path(), 1, {3});
  save_steps(directory.path(), 1, {1, 2, 4});
  const fs::path checkpoints = directory / "checkpoints";
  fs::copy(other / "checkpoints/step_00000003", checkpoints / "step_00000003");      // another run's
  fs::remove(checkpoints / "step_00000002/rank_00000_of_00001.h5");                  // damaged
  fs::rename(checkpoints / "step_00000001", checkpoints / "step_00000001.aside.1");  // set aside
  create_directories_durably(checkpoints / "step_best");
  create_directories_durably(checkpoints / ".trash.step_00000000.1");  // an interrupted deletion

  save_steps(directory.path(), 1, {5, 6}, {{1, 0}, SaveErrorPolicy::stop, false});
  EXPECT_THAT(directories(directory.path()),
              ElementsAre("step_00000001.aside.1", "step_00000002", "step_00000003", "step_00000006", "step_best"));
}

TEST(Retention, RoutersGoWithTheirCheckpoint) {
  TemporaryDirectory directory;
  const fs::path checkpoints = directory / "checkpoints";
  save_steps(directory.path(), 1, {1, 2});
  for (const char* name : {"step_00000001.router", "step_00000002.router"})
    write_file_durably(checkpoints / name, "router");
  EXPECT_THAT(list_checkpoints(checkpoints, "").ignored, IsEmpty());

  save_steps(directory.path(), 1, {3}, {{2, 0}, SaveErrorPolicy::stop, false});
  EXPECT_FALSE(fs::exists(checkpoints / "step_00000001.router"));
  EXPECT_TRUE(fs::exists(checkpoints / "step_00000002.router"));
}

TEST(Retention, DamagedNewerCheckpointDoesNotCountAsKept) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 1, {10, 20});
  fs::resize_file(directory / "checkpoints/step_00000020/rank_00000_of_00001.h5", 100);
  save_steps(directory.path(), 1, {15}, {{1, 0}, SaveErrorPolicy::stop, false});
  EXPECT_THAT(directories(directory.path()), ElementsAre("step_00000015", "step_00000020"));
  EXPECT_EQ(resumed_step(directory.path()), 15);
}

}  // namespace
}  // namespace longhaul
