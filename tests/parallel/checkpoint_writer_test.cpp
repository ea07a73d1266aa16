#include "parallel/checkpoint_writer.h"

#include <gmock/gmock.h>

#include <atomic>

#include "core/io/file.h"
#include "parallel/checkpoint_directory.h"
#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // the fixture

TEST(CheckpointWriter, AnyLayoutReadsWhatAnyLayoutWrote) {
  std::string hash;
  for (const int ranks : {1, 2, 4}) {
    TemporaryDirectory directory;
    save_steps(directory.path(), ranks, {3});
    const auto reader = CheckpointReader::open(directory / "checkpoints/step_00000003");
    EXPECT_EQ(reader.manifest().files.size(), static_cast<size_t>(ranks));
    EXPECT_EQ(reader.manifest().extras, toy_extras(3));
    EXPECT_EQ(read_toy(reader), ToyState(3));
    const std::string found = hash_state(reader).total;
    if (hash.empty()) hash = found;
    EXPECT_EQ(found, hash) << ranks << " ranks";
  }
}

TEST(CheckpointWriter, SlicesOfOneRankAreMergedIntoOnePiecePerTensor) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 2, {3});
  const auto reader = CheckpointReader::open(directory / "checkpoints/step_00000003");
  EXPECT_EQ(reader.entry("parameter/h.0.weight").pieces.size(), 2u);
}

TEST(CheckpointWriter, EveryRangeOfATensorCanBeRead) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 4, {3});
  const auto reader = CheckpointReader::open(directory / "checkpoints/step_00000003");
  const ToyState expected(3);
  for (int64_t begin = 0; begin <= 77; ++begin) {
    for (int64_t count = 0; count <= 77 - begin; count += 5) {
      std::vector<float> values(static_cast<size_t>(count));
      reader.read("parameter/h.0.weight", begin, count, DType::f32, values.data());
      ASSERT_TRUE(std::equal(values.begin(), values.end(), expected.weight.begin() + begin)) << begin << " " << count;
    }
  }
  float value = 0;
  EXPECT_THAT(error_of([&] { reader.read("parameter/h.0.weight", 77, 1, DType::f32, &value); }), HasSubstr("[7, 11]"));
  EXPECT_THAT(error_of([&] { reader.read("parameter/h.0.weight", 0, 1, DType::f64, &value); }), HasSubstr("holds f32"));
  EXPECT_THAT(error_of([&] { reader.read("parameter/other", 0, 1, DType::f32, &value); }),
              HasSubstr("'parameter/other'"));
}

TEST(CheckpointWriter, BackgroundSaveIsOfTheMomentOfBegin) {
  TemporaryDirectory directory;
  run_ranks(2, [&](Communicator& group) {
    const RunDirectory run = RunDirectory::acquire(group, directory.path());
    CheckpointWriter writer(group, run, {});
    ToyState state(3);
    EXPECT_TRUE(writer.begin(3, state.slices(group.rank(), group.size()), toy_extras(3)).empty());
    state = ToyState(4);  // training goes on in the same memory
    EXPECT_TRUE(writer.in_flight());
    std::optional<SaveReport> report;
    while (!(report = writer.poll())) std::this_thread::yield();
    EXPECT_TRUE(report->committed);
    EXPECT_EQ(report->step, 3);
    EXPECT_EQ(report->problem, "");
    EXPECT_GT(report->bytes, 0);
    EXPECT_FALSE(writer.in_flight());
    EXPECT_FALSE(writer.poll());
  });
  EXPECT_EQ(read_toy(CheckpointReader::open(directory / "checkpoints/step_00000003")), ToyState(3));
  EXPECT_EQ(read_file(directory / "checkpoints/latest"), "step_00000003\n");
}

TEST(CheckpointWriter, NothingIsVisibleBeforeTheCommit) {
  TemporaryDirectory directory;
  const auto group = make_single_communicator();
  const RunDirectory run = RunDirectory::acquire(*group, directory.path());
  CheckpointOptions options;
  options.retention.keep_last = 1;
  {
    CheckpointWriter writer(*group, run, options);
    ToyState state(1);
    writer.begin(1, state.slices(0, 1), toy_extras(1));
    writer.finish();
    writer.begin(2, state.slices(0, 1), toy_extras(2));
  }  // written, never committed
  const CheckpointListing listing = list_checkpoints(run.checkpoints(), run.run_id());
  ASSERT_EQ(listing.candidates.size(), 1u);
  EXPECT_EQ(listing.candidates[0].manifest->step, 1);
  EXPECT_EQ(listing.latest, "step_00000001");
  EXPECT_EQ(choose_checkpoint(*group, run, "auto").checkpoint->manifest().step, 1);
}

TEST(CheckpointWriter, NextSaveFinishesTheOneInFlightAndRemovesLeftovers) {
  TemporaryDirectory directory;
  {
    save_steps(directory.path(), 1, {1});
    const auto group = make_single_communicator();
    const RunDirectory run = RunDirectory::acquire(*group, directory.path());
    const fs::path leftover = run.checkpoints() / "step_00000009.partial.dead";
    create_directories_durably(leftover);
    write_file_durably(leftover / "owner", run.run_id());
    write_file_durably(leftover / "rank_00000_of_00001.h5", "half");
    const fs::path foreign = run.checkpoints() / "step_00000009.partial.other";
    create_directories_durably(foreign);
    write_file_durably(foreign / "notes.txt", "mine");

    CheckpointWriter writer(*group, run, {});
    ToyState state(2);
    writer.begin(2, state.slices(0, 1), toy_extras(2));
    const auto reports = writer.begin(3, state.slices(0, 1), toy_extras(3));
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_EQ(reports[0].step, 2);
    EXPECT_TRUE(writer.finish()->committed);
    EXPECT_FALSE(fs::exists(leftover));
    EXPECT_TRUE(fs::exists(foreign / "notes.txt"));
  }
}

TEST(CheckpointWriter, SavingAStepAgainReplacesIt) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 2, {20});
  save_steps(directory.path(), 1, {20});
  const auto reader = CheckpointReader::open(directory / "checkpoints/step_00000020");
  EXPECT_EQ(reader.manifest().files.size(), 1u);
  EXPECT_FALSE(fs::exists(directory / "checkpoints/step_00000020.old"));
}

TEST(CheckpointWriter, DamagedDirectoryOfOurOwnStepIsSetAsideAsEvidence) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 2, {20});
  fs::remove(directory / "checkpoints/step_00000020/rank_00001_of_00002.h5");
  fs::remove(directory / "checkpoints/step_00000020/manifest.json");
  save_steps(directory.path(), 2, {20});
  EXPECT_EQ(read_toy(CheckpointReader::open(directory / "checkpoints/step_00000020")), ToyState(20));
  EXPECT_TRUE(fs::exists(directory / "checkpoints/step_00000020.aside.1/rank_00000_of_00002.h5"));
}

TEST(CheckpointWriter, ForeignContentIsRefusedByAllRanksTogether) {
  const auto failures = [](const fs::path& path) {
    std::atomic<int> count = 0;
    run_ranks(4, [&](Communicator& group) {
      const RunDirectory run = RunDirectory::acquire(group, path);
      CheckpointWriter writer(group, run, {{}, SaveErrorPolicy::warn, true});
      ToyState state(20);
      try {
        writer.begin(20, state.slices(group.rank(), group.size()), toy_extras(20));
      } catch (const AgreedError& error) {
        EXPECT_THAT(error.what(), HasSubstr("step_00000020"));
        EXPECT_EQ(error.fault(), Fault::kUser);
        ++count;
      }
    });
    return count.load();
  };
  TemporaryDirectory with_file;
  create_directories_durably(with_file / "checkpoints");
  write_file_durably(with_file / "checkpoints/step_00000020", "a file");
  EXPECT_EQ(failures(with_file.path()), 4);

  TemporaryDirectory with_notes;
  create_directories_durably(with_notes / "checkpoints/step_00000020");
  write_file_durably(with_notes / "checkpoints/step_00000020/notes.txt", "mine");
  EXPECT_EQ(failures(with_notes.path()), 4);
  EXPECT_EQ(read_file(with_notes / "checkpoints/step_00000020/notes.txt"), "mine");

  TemporaryDirectory other, with_other_run;
  save_steps(other.path(), 1, {20});
  save_steps(with_other_run.path(), 1, {10});
  fs::copy(other / "checkpoints/step_00000020", with_other_run / "checkpoints/step_00000020");
  EXPECT_EQ(failures(with_other_run.path()), 4);
  EXPECT_TRUE(fs::exists(with_other_run / "checkpoints/step_00000020/manifest.json"));
}

TEST(CheckpointWriter, FailureOfOneRankIsEverybodysAndLeavesTheLastGoodOne) {
  for (const SaveErrorPolicy policy : {SaveErrorPolicy::stop, SaveErrorPolicy::warn}) {
    TemporaryDirectory directory;
    save_steps(directory.path(), 2, {1});
    std::atomic<int> told = 0;
    run_ranks(2, [&](Communicator& group) {
      const RunDirectory run = RunDirectory::acquire(group, directory.path());
      CheckpointWriter writer(group, run, {{}, policy, true});
      ToyState state(2);
      auto slices = state.slices(group.rank(), group.size());
      if (group.rank() == 1)
        slices[0].name = "a/./../b\n";  // HDF5 cannot name it: the writer thread of this rank fails
      if (group.rank() == 1) slices.push_back({"parameter", "x", Shape({2}), DType::f32, 0, 2, state.weight.data()});
      if (group.rank() == 1)
        slices.push_back({"parameter/x", "at_0", Shape({2}), DType::f32, 0, 2, state.weight.data()});
      try {
        writer.begin(2, slices, toy_extras(2));
        const auto report = writer.finish();
        EXPECT_EQ(policy, SaveErrorPolicy::warn);
        EXPECT_FALSE(report->committed);
        EXPECT_THAT(report->problem, HasSubstr("rank 1"));
        ++told;
      } catch (const AgreedError& error) {
        EXPECT_EQ(policy, SaveErrorPolicy::stop);
        EXPECT_THAT(error.what(), HasSubstr("the checkpoint of step 2 was not saved"));
        ++told;
      }
    });
    EXPECT_EQ(told, 2);
    EXPECT_EQ(resumed_step(directory.path()), 1);
  }
}

TEST(CheckpointWriter, SlicesThatDoNotCoverATensorAreRefused) {
  TemporaryDirectory directory;
  const auto group = make_single_communicator();
  const RunDirectory run = RunDirectory::acquire(*group, directory.path());
  CheckpointWriter writer(*group, run, {});
  ToyState state(1);
  auto slices = state.slices(0, 1);
  slices.erase(slices.begin());
  writer.begin(1, slices, toy_extras(1));
  EXPECT_THAT(error_of([&] { writer.finish(); }), HasSubstr("lacks elements"));
  slices = state.slices(0, 1);
  slices.push_back(slices[0]);
  EXPECT_THAT(error_of([&] { writer.begin(1, slices, toy_extras(1)); }), HasSubstr("two slices"));
  slices = state.slices(0, 1);
  slices[0].count = 1000;
  EXPECT_THAT(error_of([&] { writer.begin(1, slices, toy_extras(1)); }), HasSubstr("with 77 elements"));
  EXPECT_TRUE(list_checkpoints(run.checkpoints(), run.run_id()).candidates.empty());
}

}  // namespace
}  // namespace longhaul
