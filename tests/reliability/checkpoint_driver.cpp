// The program that the fault tests torment: saves and loads the toy state.
//   checkpoint_driver save RUN STEP RANKS KEEP_LAST   prints "saved STEP" after the commit; exit 1 with the error
//   otherwise checkpoint_driver load RUN...                     prints one line per run: "STEP", "mixed" or "error:
//   ..."
#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul::testing {
namespace {

int save(const std::string& run, int64_t step, int ranks, int64_t keep_last) {
  try {
    save_steps(run, ranks, {step}, {{keep_last, 0}, SaveErrorPolicy::stop, false});
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
  fmt::print("saved {}\n", step);
  return 0;
}

int64_t open_files() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::distance(begin(descriptors), end(descriptors));
}

void limit_file_size(rlim_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) throw system_error("getrlimit failed");
  limit.rlim_cur = bytes;
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) throw system_error("setrlimit failed");
}

std::string retry(const std::string& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const auto group = make_single_communicator();
  const RunDirectory run = RunDirectory::acquire(*group, path);
  CheckpointWriter writer(*group, run, {{1, 0}, SaveErrorPolicy::warn, true});
  int64_t step = 2, files = 0;
  for (const rlim_t limit : {50, 300, 1000, 2048, 3000, 4000}) {
    for (const bool full : {true, false}) {
      limit_file_size(full ? limit : RLIM_INFINITY);
      ToyState state(step);
      std::vector<SaveReport> reports = writer.begin(step, state.slices(0, 1), toy_extras(step));
      if (auto report = writer.finish()) reports.push_back(*report);
      limit_file_size(RLIM_INFINITY);
      if (reports.size() != 1 || reports[0].committed == full) {
        return fmt::format("limit {}, full {}: {} reports, {}", limit, full, reports.size(), reports[0].problem);
      }
      if (files == 0) files = open_files();
      if (open_files() != files) return fmt::format("limit {}: {} open files, {} before", limit, open_files(), files);
      ++step;
    }
  }
  return "survived";
}

std::string load(const std::string& run) {
  try {
    const ResumeChoice choice = resume(run);
    if (!choice.checkpoint) return "nothing";
    const int64_t step = choice.checkpoint->manifest().step;
    const bool whole =
        read_toy(*choice.checkpoint) == ToyState(step) && choice.checkpoint->manifest().extras == toy_extras(step);
    return whole ? std::to_string(step) : "mixed";
  } catch (const std::exception& error) {
    return std::string("error: ") + error.what();
  }
}

}  // namespace
}  // namespace longhaul::testing

int main(int count, char** words) {
  using namespace longhaul::testing;
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 5 && arguments[0] == "save") {
    return save(arguments[1], std::stoll(arguments[2]), std::stoi(arguments[3]), std::stoll(arguments[4]));
  }
  if (arguments.size() == 2 && arguments[0] == "retry") {
    fmt::print("{}\n", retry(arguments[1]));
    return 0;
  }
  if (arguments.empty() || arguments[0] != "load") return 2;
  for (size_t index = 1; index < arguments.size(); ++index) fmt::print("{}\n", load(arguments[index]));
  return 0;
}
