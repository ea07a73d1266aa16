// What a module's forward pass needs besides its input.
#pragma once

#include "core/autograd/tape.h"
#include "core/control/gate_record.h"
#include "core/control/prior_record.h"
#include "core/tensor/batch.h"
#include "kernels/philox.h"

namespace longhaul {

struct ForwardContext {
  Tape& tape;
  const Batch& batch;
  bool training = false;          ///< dropout is active
  uint64_t seed = 0;              ///< run seed: key of dropout masks
  uint64_t step = 0;              ///< optimizer step: likewise
  GateRecord* gates = nullptr;    ///< filled by models with entropy gates when given
  PriorRecord* priors = nullptr;  ///< filled in training by models with memberships when given
  int64_t prior_length = 0;       ///< evaluation: T of the frozen prior B(T); 0: the length of the rows
  Variable penalty = {};  ///< f64 [1], set by the model: what its regularisers add to the objective; undefined: nothing
  kernels::RandomKey random_key(uint32_t layer) const { return {seed, step, layer}; }
};

}  // namespace longhaul
