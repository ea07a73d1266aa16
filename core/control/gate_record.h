// What the gates of one forward pass saw: measured by the model, summarised over slots and ranks by the trainer.
#pragma once

#include <vector>

#include "core/control/entropy_gate.h"
#include "core/tensor/tensor.h"

namespace longhaul {

struct GateRecord {
  struct Block {
    Tensor inputs;            ///< [B * T, d_model], what the gate looked at; undefined unless asked for
    Tensor entropies;         ///< f32 [B * T], of every token
    float threshold = 0;      ///< a token fired when its entropy is strictly greater
    EntropyGate::State next;  ///< gate.update = before, in training: the state this pass compared with, to keep if the
                              ///< step is applied; else the gate's own state
  };
  std::vector<Block> blocks;  ///< by block; overwritten by the forward pass
  bool keep_inputs = false;   ///< set by the caller
};

/// The entropies (f32) of the tokens whose target (i32, as many) is valid, in token order.
std::vector<float> valid_entropies(const Tensor& entropies, const Tensor& targets);

}  // namespace longhaul
