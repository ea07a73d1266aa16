// A job that does nothing but meet at barriers, with a fault on one rank at step 5: fault_program MODE RANK. The test
// beside it starts it under mpirun and looks at how it ends.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "core/comm/agreement.h"
#include "launch/world_frame.h"
#include "parallel/watchdog.h"

namespace longhaul {
namespace {

using namespace std::chrono_literals;

constexpr double kTimeoutSeconds = 2;
constexpr int64_t kFaultStep = 5;

void commit_fault(const std::string& mode) {
  if (mode == "throw") throw user_error("checkpoint shard unreadable");
  if (mode == "sleep") std::this_thread::sleep_for(1h);
  if (mode == "stop") ::raise(SIGSTOP);
  if (mode == "kill") ::raise(SIGKILL);
  if (mode == "exit") ::_exit(0);
  if (mode == "save") std::this_thread::sleep_for(4s);
}

void step(World& world, Watchdog& watchdog, int64_t number, const std::string& mode, bool chosen) {
  watchdog.beat(number);
  {
    const Watchdog::Phase phase(watchdog, "forward", mode == "save" ? 20 : 0);
    std::this_thread::sleep_for(mode == "slow" && chosen ? 250ms : 50ms);
    if (number == kFaultStep && chosen && mode != "agreed") commit_fault(mode);
  }
  const Watchdog::Phase phase(watchdog, "agreement", mode == "save" ? 20 : 0);
  agree(world.group(), "agreement", [&] {
    if (number == kFaultStep && chosen && mode == "agreed") throw user_error("log directory is not writable");
  });
}

int run(World& world, const std::string& mode, int rank) {
  const bool chosen = world.group().rank() == rank;
  if (mode == "config") {
    require_equal(world.group(), "configuration", {{"model.layers", chosen ? "6" : "4"}});
    return 0;
  }
  Watchdog watchdog(world.group(), {.timeout_seconds = kTimeoutSeconds,
                                    .waiting_for_peers = [&] { return world.waiting_for_peers(); },
                                    .terminate = [&](const std::string& message) { world.abort(message, 1); }});
  const int64_t steps = mode == "forever" ? 1000000 : 20;
  for (int64_t number = 0; number < steps; ++number) step(world, watchdog, number, mode, chosen);
  if (world.group().is_root()) std::printf("done\n");
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: fault_program MODE RANK\n");
    return 2;
  }
  return longhaul::with_world(
      [&](longhaul::World& world) { return longhaul::run(world, arguments[1], std::atoi(arguments[2])); });
}
