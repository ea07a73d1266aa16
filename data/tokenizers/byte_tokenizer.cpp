#include "data/tokenizers/byte_tokenizer.h"

#include "kernels/error.h"

namespace longhaul {

void ByteTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) {
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id > kEndOfText) {
      throw user_error("bytes tokenizer: found id {}, expected ids in [0, {})", id, vocab_size());
    }
    if (id != kEndOfText) text.push_back(static_cast<char>(id));
  }
  return text;
}

}  // namespace longhaul
