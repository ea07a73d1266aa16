// `longhaul bench decode`: time per token of a gated model against context length.
#pragma once

#include "launch/arguments.h"

namespace longhaul {

/// Options: config=, set=, lengths=, tokens=, rate=. Prints the table; returns the exit code. Not collective.
int bench_decode(const Arguments& arguments);

}  // namespace longhaul
