#include "launch/interop/huggingface_tokenizer.h"

#include <nlohmann/json.hpp>

#include "core/io/file.h"
#include "data/tokenizers/byte_pair_tokenizer.h"
#include "data/tokenizers/sentencepiece_tokenizer.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kMerges = "merges.txt";
constexpr const char* kSentencePiece = "tokenizer.model";

void write_config(const std::filesystem::path& directory, const nlohmann::ordered_json& config) {
  write_file_durably(directory / "tokenizer_config.json", config.dump(2) + "\n");
}

/// How vocab.json writes a token; decode() leaves the end of a text out.
std::string token_name(const std::string& vocabulary, int32_t id) {
  const nlohmann::json entries = nlohmann::json::parse(vocabulary);
  for (const auto& [name, value] : entries.items()) {
    if (value == id) return name;
  }
  throw internal_error("tokenizer: id {} is not in its own vocabulary", id);
}

/// model_bytes() of the byte-pair tokenizer is "LENGTH\n", LENGTH bytes of vocab.json, then merges.txt.
void export_byte_pairs(const Tokenizer& tokenizer, const std::filesystem::path& directory) {
  const std::string bytes = tokenizer.model_bytes();
  const size_t begin = bytes.find('\n') + 1;
  const size_t length = std::stoull(bytes.substr(0, begin));
  const std::string vocabulary = bytes.substr(begin, length);
  write_file_durably(directory / kVocabulary, vocabulary);
  write_file_durably(directory / kMerges, bytes.substr(begin + length));
  const std::string name = token_name(vocabulary, tokenizer.end_of_text());
  write_config(directory, {{"tokenizer_class", "GPT2Tokenizer"},
                           {"add_prefix_space", false},
                           {"bos_token", name},
                           {"eos_token", name},
                           {"unk_token", name}});
}

}  // namespace

bool export_huggingface_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& directory) {
  if (tokenizer.name() == BytePairTokenizer::kName) {
    export_byte_pairs(tokenizer, directory);
    return true;
  }
  if (tokenizer.name() == SentencePieceTokenizer::kName) {
    write_file_durably(directory / kSentencePiece, tokenizer.model_bytes());
    write_config(directory,
                 {{"tokenizer_class", "LlamaTokenizer"}, {"add_bos_token", false}, {"add_eos_token", false}});
    return true;
  }
  return false;
}

std::unique_ptr<Tokenizer> import_huggingface_tokenizer(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / kVocabulary) && std::filesystem::exists(directory / kMerges)) {
    return std::make_unique<BytePairTokenizer>(
        BytePairTables::from_files(directory / kVocabulary, directory / kMerges));
  }
  if (std::filesystem::exists(directory / kSentencePiece)) {
    return std::make_unique<SentencePieceTokenizer>(read_file(directory / kSentencePiece));
  }
  return nullptr;
}

}  // namespace longhaul
