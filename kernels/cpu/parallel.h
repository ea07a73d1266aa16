// How kernels share work between OpenMP threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace longhaul::kernels {

/// Below this many elements a kernel stays on the calling thread: waking a team costs more than the work.
inline constexpr int64_t kParallelElements = 32768;

/// Calls f(begin, end) for disjoint ranges that cover [0, count), one per thread, cut at multiples of `granule`. `work`
/// is the number of elements touched in all. For kernels whose results do not depend on where the cuts are. f must not
/// throw.
template <typename F>
void parallel_ranges(int64_t count, int64_t granule, int64_t work, F f) {
  if (count <= 0) return;
  const int64_t units = (count + granule - 1) / granule;
#pragma omp parallel if (work >= kParallelElements && units > 1)
  {
    const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t begin = units * thread / threads * granule;
    const int64_t end = std::min(count, units * (thread + 1) / threads * granule);
    if (begin < end) f(begin, end);
  }
}

}  // namespace longhaul::kernels
