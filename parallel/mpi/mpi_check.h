// mpi.h and its return codes. Private to parallel/mpi.
#pragma once

// Without the deprecated C++ bindings, which do not compile without warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

#include "kernels/error.h"

namespace longhaul {

inline std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return std::string(text, static_cast<size_t>(length));
}

/// Error(system) naming the call unless the code is MPI_SUCCESS.
inline void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw system_error("MPI: {} failed: {}", call, mpi_error_text(code));
}

}  // namespace longhaul
