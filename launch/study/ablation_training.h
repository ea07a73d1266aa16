// Trains the runs of an ablation one after another, each as `longhaul train` would; what has ended is not touched.
#pragma once

#include "launch/study/ablation.h"
#include "parallel/mpi/mpi_runtime.h"

namespace longhaul {

/// Has the run ended: is there a complete checkpoint of its last step? user_error naming the key when the directory is
/// of a run with other settings. Reads manifests, verifies nothing. Not collective.
bool has_ended(const AblationRun& run);

/// Starts or continues every run that has not ended; after a signal (or train.stop_after) no further one. The exit
/// code: that of `longhaul train`. Collective.
int train_ablation(World& world, const Ablation& ablation);

}  // namespace longhaul
