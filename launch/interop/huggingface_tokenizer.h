// Tokenizer files of Hugging Face directories: vocab.json + merges.txt (GPT-2 byte-level BPE), tokenizer.model
// (SentencePiece).
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace longhaul {

/// Writes the tokenizer's files and tokenizer_config.json into `directory`. Raw bytes have no Hugging Face form:
/// nothing is written. Returns whether files were written.
bool export_huggingface_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& directory);

/// The tokenizer whose files stand in `directory`; null when there are none of a known kind.
std::unique_ptr<Tokenizer> import_huggingface_tokenizer(const std::filesystem::path& directory);

}  // namespace longhaul
