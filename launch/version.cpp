#include <fmt/format.h>

#include "launch/program.h"

namespace longhaul {

std::string version_text() { return "longhaul 0.1.0\n"; }

}  // namespace longhaul
