// The rotary angles of a model, one table for all its attention layers.
#pragma once

#include "core/models/model_config.h"
#include "core/tensor/tensor.h"

namespace longhaul {

/// [context_length, d_model / n_head] for kernels::rope_rotate, dtype of the activations (f32 or f64).
Tensor make_rope_table(const ModelConfig& config, DType dtype);

/// Weights stored in bf16 compute in f32.
inline DType activation_dtype(DType stored) { return stored == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace longhaul
