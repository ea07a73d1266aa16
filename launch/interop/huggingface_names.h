// How our parameters map to the tensors of other programs: Hugging Face's GPT-2, Llama and Mamba2, and the names of the
// published AMOR code, which the other recurrent families follow (docs/formats.md has the table).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/models/model_config.h"
#include "core/nn/parameter_store.h"

namespace longhaul {

/// How a run of our rows [rows, columns] is stored there.
enum class TensorLayout {
  kSame,
  kTransposed,  ///< [columns, rows]: Conv1D of GPT-2
  kDepthwise,   ///< [rows, 1, columns]: depthwise convolutions of torch
};

/// A run of rows of one of our parameters under its name there.
struct HuggingFacePart {
  std::string name;
  int64_t begin = 0, end = 0;  ///< rows of our matrix (elements of a vector)
  TensorLayout layout = TensorLayout::kSame;
};

/// The parts of `parameter`, in row order and covering it. `config` is resolved.
std::vector<HuggingFacePart> huggingface_parts(const ModelConfig& config, const Parameter& parameter);

/// Tensors of old files that are no parameters (causal masks, rotary tables), to be skipped.
bool is_huggingface_buffer(const std::string& name);

}  // namespace longhaul
