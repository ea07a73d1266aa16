// main of the tests that run on several MPI ranks. Every rank runs every test; all of them must pass.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "parallel/mpi/mpi_runtime.h"
#include "tests/parallel/mpi_world.h"

namespace longhaul::testing {
namespace {
World* the_world = nullptr;
}
World& mpi_world() { return *the_world; }

/// What ranks other than 0 print: failures only.
class FailurePrinter : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", mpi_world().group().rank(), result.file_name(), result.line_number(),
                 result.message());
  }
};
}  // namespace longhaul::testing

int main(int argument_count, char** arguments) {
  longhaul::World world;
  longhaul::testing::the_world = &world;
  ::testing::InitGoogleTest(&argument_count, arguments);
  if (world.group().rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new longhaul::testing::FailurePrinter);
  }
  std::array<int64_t, 1> failed{RUN_ALL_TESTS()};
  world.group().max(failed);
  return static_cast<int>(failed[0]);
}
