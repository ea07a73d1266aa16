// Exit codes of the program: part of its interface (job scripts decide by them).
#pragma once

#include "kernels/error.h"

namespace longhaul {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;    ///< the machine or a defect: disk full, lost rank, violated shape
inline constexpr int kExitUserError = 2;  ///< bad input, configuration or command line
inline constexpr int kExitStoppedEarly =
    75;  ///< stopped by a signal or train.stop_after with a complete checkpoint: start again

inline int exit_code(Fault fault) { return fault == Fault::kUser ? kExitUserError : kExitFailure; }

}  // namespace longhaul
