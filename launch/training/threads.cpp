#include "launch/training/threads.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <thread>

#include "kernels/error.h"

namespace longhaul {
namespace {

int bound_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&set);
}

}  // namespace

int ranks_on_this_machine(Communicator& group) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) throw system_error("gethostname: {}", std::strerror(errno));
  const auto mine = std::as_bytes(std::span(name));
  int count = 0;
  for (const auto& other : group.gather_all(mine)) {
    count += other.size() == mine.size() && std::equal(other.begin(), other.end(), mine.begin());
  }
  return count;
}

int set_threads(Communicator& group, int64_t wanted) {
  const int local = ranks_on_this_machine(group);
  const int share = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / local);
  const int threads = wanted > 0 ? static_cast<int>(wanted) : std::min(share, std::max(1, bound_cores()));
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  return threads;
}

}  // namespace longhaul
