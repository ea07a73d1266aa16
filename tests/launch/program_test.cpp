#include "launch/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "kernels/error.h"
#include "launch/command_list.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_program(commands, words);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

Command throwing(const std::function<void()>& action) {
  return {"work", "works", "usage: longhaul work\n", [=](const std::vector<std::string>&) {
            action();
            return 0;
          }};
}

TEST(Program, ErrorsAreOneLineAndTheExitCodeTellsWhoHasToAct) {
  const Outcome user = run({throwing([] { throw user_error("x: found 1, expected 2"); })}, {"work"});
  EXPECT_EQ(user.code, 2);
  EXPECT_EQ(user.err, "longhaul: x: found 1, expected 2\n");
  EXPECT_EQ(run({throwing([] { throw system_error("disk full"); })}, {"work"}).code, 1);
  EXPECT_EQ(run({throwing([] { throw internal_error("shape"); })}, {"work"}).code, 1);
  EXPECT_EQ(run({throwing([] { throw std::bad_alloc(); })}, {"work"}).code, 1);
  EXPECT_EQ(run({throwing([] { throw user_error("two\nlines"); })}, {"work"}).err, "longhaul: two lines\n");
}

TEST(Program, NamesTheNearestCommand) {
  const Outcome outcome = run(command_list(), {"trian"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'trian' is not a command; did you mean 'train'?"));
}

TEST(Program, EveryCommandHasHelpWithAnExample) {
  const Outcome all = run(command_list(), {"--help"});
  EXPECT_EQ(all.code, 0);
  for (const Command& command : command_list()) {
    EXPECT_THAT(all.out, HasSubstr("  " + command.name));
    const Outcome help = run(command_list(), {command.name, "--help"});
    EXPECT_EQ(help.code, 0) << command.name;
    EXPECT_THAT(help.out, HasSubstr("usage: ")) << command.name;
    EXPECT_THAT(help.out, HasSubstr("example")) << command.name;
  }
}

TEST(Program, WithoutACommandShowsHelpAndFails) { EXPECT_EQ(run(command_list(), {}).code, 2); }

TEST(Program, VersionNamesWhatItWasBuiltWith) {
  const Outcome outcome = run(command_list(), {"--version"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* name : {"commit", "build", "CPU kernels", "MPI", "HDF5", "BLAS", "CUDA", "NCCL"}) {
    EXPECT_THAT(outcome.out, HasSubstr(name));
  }
}

}  // namespace
}  // namespace longhaul
