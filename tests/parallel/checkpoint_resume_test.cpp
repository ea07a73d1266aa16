#include "parallel/checkpoint_resume.h"

#include <gmock/gmock.h>

#include <atomic>

#include "core/io/file.h"
#include "parallel/checkpoint_directory.h"
#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing;  // the fixture

const char* const kFile = "rank_00000_of_00002.h5";

TEST(Resume, FreshRunStartsAtZero) {
  TemporaryDirectory directory;
  EXPECT_EQ(resumed_step(directory.path() / "new/run"), -1);
  EXPECT_EQ(resumed_step(directory.path() / "new/run", "none"), -1);
}

TEST(Resume, RecordedStepDecidesNotNameNorTime) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 1, {999, 1000, 500});
  const fs::path checkpoints = directory / "checkpoints";
  fs::rename(checkpoints / "step_00000999", checkpoints / "step_999");
  fs::rename(checkpoints / "step_00001000", checkpoints / "step_1000");
  fs::rename(checkpoints / "step_00000500", checkpoints / "step_00500");
  create_directories_durably(checkpoints / "step_best");
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(checkpoints / "step_1000", now - std::chrono::hours(5));
  fs::last_write_time(checkpoints / "step_00500", now + std::chrono::hours(1));

  const ResumeChoice choice = resume(directory.path());
  EXPECT_EQ(choice.checkpoint->manifest().step, 1000);
  EXPECT_THAT(choice.skipped, Contains(HasSubstr("step_best: not the name of a checkpoint")));
}

TEST(Resume, HintIsOnlyAHint) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 2, {1, 2});
  const fs::path latest = directory / "checkpoints/latest";
  for (const char* content : {"", "step_00000001\n", "step_00000777\n", "\xff\xfe garbage"}) {
    write_file_durably(latest, content);
    EXPECT_EQ(resumed_step(directory.path()), 2) << content;
  }
  fs::remove(latest);
  EXPECT_EQ(resumed_step(directory.path()), 2);
  fs::create_directory(latest);
  EXPECT_EQ(resumed_step(directory.path()), 2);
}

TEST(Resume, LostCheckpointsAreNotAFreshStart) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 1, {1});
  fs::remove_all(directory / "checkpoints/step_00000001");
  EXPECT_THAT(error_of([&] { resume(directory.path()); }), HasSubstr("no checkpoint is there"));
  EXPECT_EQ(resumed_step(directory.path(), "none"), -1);
  EXPECT_EQ(resumed_step(directory.path()), -1);  // the run was told to start again
}

TEST(Resume, DamagedCheckpointsAreSkippedNamedAndKept) {
  const std::vector<std::pair<std::string, std::function<void(const fs::path&)>>> damages = {
      {"missing", [](const fs::path& step) { fs::remove(step / kFile); }},
      {"bytes", [](const fs::path& step) { fs::resize_file(step / kFile, fs::file_size(step / kFile) - 1); }},
      {"checksum",
       [](const fs::path& step) {
         fs::copy_file(step.parent_path() / "step_00000001" / kFile, step / kFile,
                       fs::copy_options::overwrite_existing);
       }},
      {"never completed", [](const fs::path& step) { fs::remove(step / "manifest.json"); }},
      {"manifest", [](const fs::path& step) { fs::resize_file(step / "manifest.json", 200); }},
      {"manifest", [](const fs::path& step) { fs::resize_file(step / "manifest.json", 0); }},
  };
  for (const auto& [reason, damage] : damages) {
    TemporaryDirectory directory;
    save_steps(directory.path(), 2, {1, 2});
    damage(directory / "checkpoints/step_00000002");
    const ResumeChoice choice = resume(directory.path());
    ASSERT_TRUE(choice.checkpoint);
    EXPECT_EQ(choice.checkpoint->manifest().step, 1);
    EXPECT_EQ(read_toy(*choice.checkpoint), ToyState(1));
    ASSERT_FALSE(choice.skipped.empty());
    EXPECT_THAT(choice.skipped[0], HasSubstr("step_00000002"));
    EXPECT_THAT(choice.skipped[0], AnyOf(HasSubstr(reason), HasSubstr("No such file")));
    EXPECT_TRUE(fs::exists(directory / "checkpoints/step_00000002"));
  }
}

TEST(Resume, NoUsableCheckpointStopsAllRanks) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 2, {1});
  fs::remove(directory / "checkpoints/step_00000001" / kFile);
  std::atomic<int> stopped = 0;
  run_ranks(4, [&](Communicator& group) {
    const RunDirectory run = RunDirectory::acquire(group, directory.path());
    try {
      choose_checkpoint(group, run, "auto");
    } catch (const AgreedError& error) {
      EXPECT_THAT(error.what(), HasSubstr("step_00000001"));
      EXPECT_EQ(error.fault(), Fault::kUser);
      ++stopped;
    }
  });
  EXPECT_EQ(stopped, 4);
}

TEST(Resume, CheckpointsOfAnotherRunAreNotUsed) {
  TemporaryDirectory directory, other;
  save_steps(directory.path(), 1, {1});
  save_steps(other.path(), 1, {9});
  fs::copy(other / "checkpoints/step_00000009", directory / "checkpoints/step_00000009");
  EXPECT_EQ(resumed_step(directory.path()), 1);
  fs::remove_all(directory / "checkpoints/step_00000001");
  EXPECT_THAT(error_of([&] { resume(directory.path()); }), HasSubstr("belongs to run"));
}

TEST(Resume, ExactStepBeginsABranchThatAutoFollows) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 1, {10, 20, 30});
  EXPECT_THAT(error_of([&] { resume(directory.path(), "15"); }), HasSubstr("there are: 30, 20, 10"));
  EXPECT_EQ(resumed_step(directory.path(), "20"), 20);
  EXPECT_TRUE(fs::exists(directory / "checkpoints/step_00000030.aside.1/manifest.json"));
  EXPECT_EQ(read_file(directory / "checkpoints/latest"), "step_00000020\n");
  EXPECT_EQ(resumed_step(directory.path()), 20);
  EXPECT_EQ(resumed_step(directory.path(), "none"), -1);
  EXPECT_EQ(resumed_step(directory.path()), -1);
  EXPECT_TRUE(fs::exists(directory / "checkpoints/step_00000010.aside.1/manifest.json"));
}

TEST(Resume, ExactStepThatIsDamagedIsAnError) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 2, {10, 20});
  File file = File::open_append(directory / "checkpoints/step_00000010" / kFile);
  file.write("x");
  file.close();
  EXPECT_THAT(error_of([&] { resume(directory.path(), "10"); }), HasSubstr("no usable checkpoint of step 10"));
  EXPECT_EQ(resumed_step(directory.path()), 20);
}

TEST(Resume, RequestIsAutoNoneOrANumber) {
  TemporaryDirectory directory;
  for (const char* bad : {"", "Auto", "-1", "1.5", "20x", "latest", "99999999999999999999"}) {
    EXPECT_THAT(error_of([&] { resume(directory.path(), bad); }), HasSubstr("expected auto, none")) << bad;
  }
}

TEST(Resume, InterruptedReplacementIsStillFound) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 1, {10, 20});
  fs::rename(directory / "checkpoints/step_00000020", directory / "checkpoints/step_00000020.old");
  EXPECT_EQ(resumed_step(directory.path()), 20);
}

TEST(Resume, AllRanksOfAnyCountChooseTheSame) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 2, {17});
  for (const int ranks : {1, 4}) {
    run_ranks(ranks, [&](Communicator& group) {
      const RunDirectory run = RunDirectory::acquire(group, directory.path());
      const ResumeChoice choice = choose_checkpoint(group, run, "auto");
      EXPECT_EQ(choice.checkpoint->manifest().extras.data_position, 8 * 17);
      EXPECT_EQ(read_toy(*choice.checkpoint), ToyState(17));
      EXPECT_THAT(choice.skipped, IsEmpty());
    });
  }
}

TEST(Resume, ResolveFindsTheNewestOfARunOrTheCheckpointItself) {
  TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { resolve_checkpoint(directory.path()); }), HasSubstr("neither a checkpoint"));
  save_steps(directory.path(), 1, {1, 2});
  EXPECT_EQ(resolve_checkpoint(directory.path()).filename(), "step_00000002");
  EXPECT_EQ(resolve_checkpoint(directory / "checkpoints/step_00000001").filename(), "step_00000001");
}

}  // namespace
}  // namespace longhaul
