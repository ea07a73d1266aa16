// How our parameters map to Hugging Face tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/models/model_config.h"
#include "core/nn/parameter_store.h"

namespace longhaul {

/// A run of rows of one of our parameters under its Hugging Face name.
struct HuggingFacePart {
  std::string name;
  int64_t begin = 0, end = 0;  ///< rows of our matrix (elements of a vector)
  bool transposed = false;     ///< stored [in, out] there
};

/// The parts of `parameter`, in row order and covering it. `config` is resolved.
std::vector<HuggingFacePart> huggingface_parts(const ModelConfig& config, const Parameter& parameter);

/// Tensors of old files that are no parameters (causal masks, rotary tables), to be skipped.
bool is_huggingface_buffer(const std::string& name);

}  // namespace longhaul
