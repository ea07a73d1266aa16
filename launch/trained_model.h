// A model and its tokenizer from a run directory, a checkpoint directory or a Hugging Face directory: what eval,
// generate and export start from.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "core/models/language_model.h"
#include "data/tokenizers/tokenizer.h"
#include "launch/config/load_configuration.h"

namespace longhaul {

/// Name in a run directory of the tokenizer's serialised form; written when the run starts.
inline constexpr const char* kTokenizerFile = "tokenizer.bin";

struct TrainedModel {
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Tokenizer> tokenizer;  ///< null when the source has none (Hugging Face directories, bare checkpoints)
  std::filesystem::path origin;          ///< the checkpoint or Hugging Face directory that was read
  int64_t step = 0;                      ///< of the checkpoint; 0 for Hugging Face
  std::string weights = "raw";           ///< which were read: raw, ema or swa
  ResolvedConfiguration configuration;   ///< of the run; all defaults for Hugging Face, except [model]
};

/// `path`: a run directory (its newest usable checkpoint) or a checkpoint directory. `weights`: "raw", "ema",
/// "swa" (user_error when the run kept no such average or it has no snapshot yet), or "best": whichever of these the
/// last validation found best (user_error when there was none). Every byte is verified. Not collective.
TrainedModel load_trained_model(const std::filesystem::path& path, const std::string& weights = "raw");

/// The same from config.json and model.safetensors.
TrainedModel load_huggingface_model(const std::filesystem::path& directory);

}  // namespace longhaul
