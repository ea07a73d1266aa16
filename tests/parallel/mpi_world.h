// The ranks an MPI test program was started with.
#pragma once

#include "parallel/mpi/mpi_runtime.h"

namespace longhaul::testing {

World& mpi_world();  ///< owned by main

}  // namespace longhaul::testing
