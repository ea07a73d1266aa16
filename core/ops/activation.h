// Activations of the feed-forward layers.
#pragma once

#include "core/autograd/tape.h"

namespace longhaul::ops {

/// gelu_tanh(x + bias); x [rows, f], bias [f] or undefined. The bias of the layer before is added here, in the same
/// pass. (Hendrycks & Gimpel 2016, tanh form)
Variable bias_gelu(Tape& tape, const Variable& x, const Variable& bias);

/// silu(gate) * up; gate_up [rows, 2 f] holds gate in the first half of each row, up in the second; returns [rows, f].
/// (Shazeer 2020)
Variable swiglu(Tape& tape, const Variable& gate_up);

}  // namespace longhaul::ops
