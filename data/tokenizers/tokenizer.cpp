#include "data/tokenizers/tokenizer.h"

#include "core/io/checksum.h"
#include "data/tokenizers/byte_pair_tokenizer.h"
#include "data/tokenizers/byte_tokenizer.h"
#include "data/tokenizers/sentencepiece_tokenizer.h"
#include "data/tokenizers/word_tokenizer.h"
#include "kernels/error.h"

namespace longhaul {
namespace {
constexpr std::string_view kHeader = "longhaul-tokenizer 1 ";  // then the name, a line end and the model
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) {
  std::vector<int32_t> ids;
  encode(text, ids);
  return ids;
}

std::string Tokenizer::fingerprint() const {
  Checksum checksum;
  checksum.update(serialise_tokenizer(*this));
  return checksum.hex();
}

std::string serialise_tokenizer(const Tokenizer& tokenizer) {
  return std::string(kHeader) + tokenizer.name() + "\n" + tokenizer.model_bytes();
}

std::unique_ptr<Tokenizer> restore_tokenizer(const std::string& bytes, const std::string& origin) {
  const size_t line_end = bytes.find('\n');
  if (!bytes.starts_with(kHeader) || line_end == std::string::npos) {
    throw user_error("{}: found no tokenizer, expected a file that begins with '{}'; make it with `longhaul tokenize`",
                     origin, kHeader);
  }
  const std::string name = bytes.substr(kHeader.size(), line_end - kHeader.size());
  const std::string model = bytes.substr(line_end + 1);
  try {
    if (name == BytePairTokenizer::kName) return std::make_unique<BytePairTokenizer>(BytePairTables::from_bytes(model));
    if (name == SentencePieceTokenizer::kName) return std::make_unique<SentencePieceTokenizer>(model);
    if (name == ByteTokenizer::kName) return std::make_unique<ByteTokenizer>();
    if (name == WordTokenizer::kName) return std::make_unique<WordTokenizer>(WordTokenizer::from_bytes(model));
  } catch (const Error& error) {
    throw error.within(origin);
  }
  throw user_error("{}: found a tokenizer of kind '{}', expected gpt2, sentencepiece, bytes or words", origin, name);
}

}  // namespace longhaul
