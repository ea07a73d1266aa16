#include "launch/commands/version.h"

#include <cstdio>

#include "launch/program.h"

namespace longhaul {
namespace {

int run(const std::vector<std::string>&) {
  std::fputs(version_text().c_str(), stdout);
  return 0;
}

}  // namespace

Command version_command() {
  return {"version", "commit, build and libraries as compiled and as loaded",
          "usage: longhaul version\n\nexample:\n  longhaul version\n", run};
}

}  // namespace longhaul
