// Seeded mutants of a checkpoint: none may be accepted silently.
#include <gmock/gmock.h>

#include <random>

#include "core/io/file.h"
#include "parallel/checkpoint_directory.h"
#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

using namespace testing;  // the fixture

void overwrite(const fs::path& path, const std::string& content) {
  File file = File::create(path);
  file.write(content);
  file.close();
}

/// Damages the directory of step 20, using the one of step 10 and those of another run; returns what was done.
std::string mutate(const fs::path& run, const fs::path& other_run, std::mt19937_64& random) {
  const fs::path newest = run / "checkpoints/step_00000020", older = run / "checkpoints/step_00000010";
  const fs::path foreign = other_run / "checkpoints/step_00000020";
  const std::vector<std::string> names = {"rank_00000_of_00002.h5", "rank_00001_of_00002.h5", "manifest.json"};
  const std::string name = names[random() % names.size()];
  std::string content = read_file(newest / name);
  const uint64_t at = random() % content.size();
  const auto copy = [&](const fs::path& from, const std::string& to) {
    fs::copy_file(from, newest / to, fs::copy_options::overwrite_existing);
  };
  switch (random() % 10) {
    case 0:
    case 1:
    case 2:
      content[at] = static_cast<char>(content[at] ^ (1 << random() % 8));
      overwrite(newest / name, content);
      return fmt::format("bit flip in {} at {}", name, at);
    case 3:
      overwrite(newest / name, content.substr(0, at));
      return fmt::format("{} cut to {}", name, at);
    case 4:
      overwrite(newest / name, content + content.substr(at));
      return fmt::format("{} grown", name);
    case 5:
      fs::remove(newest / name);
      return name + " missing";
    case 6:
      copy(older / name, name);
      return name + " of an older step";
    case 7:
      copy(foreign / name, name);
      return name + " of another run";
    case 8:
      copy(newest / names[0], names[1]);
      return "file of another rank";
    default:
      std::fill(content.begin() + static_cast<int64_t>(at), content.end(), '\0');
      content.back() = '\1';
      overwrite(newest / name, content);
      return fmt::format("{} zeroed from {}", name, at);
  }
}

TEST(DamagedCheckpoint, NoMutantIsAcceptedSilently) {
  TemporaryDirectory directory, other;
  const fs::path pristine = directory / "pristine", run = directory / "run";
  save_steps(pristine, 2, {10, 20});
  save_steps(other.path(), 2, {20});
  std::mt19937_64 random(20);
  for (int mutant = 0; mutant < 150; ++mutant) {
    fs::remove_all(run);
    fs::copy(pristine, run, fs::copy_options::recursive);
    const std::string done = mutate(run, other.path(), random);
    const auto damaged = fs::file_size(run / "checkpoints/step_00000020/owner");

    const ResumeChoice choice = resume(run);

    ASSERT_TRUE(choice.checkpoint) << done;
    EXPECT_EQ(choice.checkpoint->manifest().step, 10) << done;
    EXPECT_EQ(read_toy(*choice.checkpoint), ToyState(10)) << done;
    ASSERT_FALSE(choice.skipped.empty()) << done;
    EXPECT_NE(choice.skipped[0].find("step_00000020"), std::string::npos) << choice.skipped[0];
    EXPECT_EQ(fs::file_size(run / "checkpoints/step_00000020/owner"), damaged) << done;
  }
}

TEST(DamagedCheckpoint, ReadingRefusesADamagedFileWithoutBeingAskedToVerify) {
  TemporaryDirectory directory;
  save_steps(directory.path(), 2, {20});
  const fs::path file = directory / "checkpoints/step_00000020/rank_00001_of_00002.h5";
  std::string content = read_file(file);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  overwrite(file, content);
  const auto reader = CheckpointReader::open(directory / "checkpoints/step_00000020");
  std::vector<float> values(77);
  EXPECT_NO_THROW(reader.read("parameter/h.0.weight", 0, 10, DType::f32, values.data()));  // in the other file
  EXPECT_THAT(error_of([&] { reader.read("parameter/h.0.weight", 0, 77, DType::f32, values.data()); }),
              ::testing::HasSubstr("rank_00001_of_00002.h5: damaged"));
}

}  // namespace
}  // namespace longhaul
