// Finds replicas that have silently drifted apart: a flipped bit, a rank that missed an update.
#pragma once

#include "core/comm/communicator.h"
#include "core/nn/parameter_store.h"

namespace longhaul {

/// Compares a hash of every parameter's values over the ranks. Collective. AgreedError (system) naming the tensor and
/// the ranks whose copy differs from the majority (from rank 0's when there is none). Call it after the gradients of a
/// step are complete and before the optimizer's update: the gather after an update would overwrite the evidence.
void check_replicas(Communicator& group, const ParameterStore& store);

}  // namespace longhaul
