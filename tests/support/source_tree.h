// Where the files lie that tests read. Not __FILE__: compilers may be told to write it relative to the build.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "kernels/error.h"

namespace longhaul {

/// The root of the repository: LONGHAUL_SOURCE when set, else the nearest folder above the test program that has the
/// tests.
inline std::filesystem::path source_root() {
  if (const char* root = std::getenv("LONGHAUL_SOURCE")) return root;
  for (std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe"); path != path.root_path();
       path = path.parent_path()) {
    if (std::filesystem::exists(path / "tests/data/golden")) return path;
  }
  throw system_error("no folder above the test program holds tests/data/golden; set LONGHAUL_SOURCE");
}

/// The folder of foreign sample files beside the repository, or an empty path.
inline std::filesystem::path shared_data() {
  for (const char* place : {"../shared/data", "../../shared/data"}) {
    if (std::filesystem::exists(source_root() / place / "FORMATS.md")) return source_root() / place;
  }
  return {};
}

}  // namespace longhaul
