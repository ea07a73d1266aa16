// What this program was built from and with. The values come from the build system (cmake/build_info.cpp.in), compiled
// into one file of their own so that a new commit recompiles nothing else.
#pragma once

#include <string_view>

namespace longhaul {

struct BuildInfo {
  std::string_view version;             ///< "0.1.0"
  std::string_view commit;              ///< short hash, "-modified" appended for a changed tree; "unknown" without git
  std::string_view build_type;          ///< "Release"
  std::string_view compiler;            ///< "GNU 12.2.0"
  std::string_view sanitizers;          ///< "", "address,undefined" or "thread"
  std::string_view mpi;                 ///< library and version found at configure time
  std::string_view hdf5;                ///< version, and serial or parallel
  std::string_view blas;                ///< path of the library linked
  std::string_view cuda;                ///< toolkit version, or "off"
  std::string_view cuda_architectures;  ///< "80-real;90-real;90-virtual", or ""
  std::string_view nccl;                ///< version, or "off"
  std::string_view sentencepiece;       ///< version
};

const BuildInfo& build_info();

}  // namespace longhaul
