// Raw bytes: ids 0-255 are the bytes, 256 ends a text.
#pragma once

#include "data/tokenizers/tokenizer.h"

namespace longhaul {

class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr const char* kName = "bytes";
  static constexpr int32_t kEndOfText = 256;

  using Tokenizer::encode;
  std::string name() const override { return kName; }
  int64_t vocab_size() const override { return kEndOfText + 1; }
  int32_t end_of_text() const override { return kEndOfText; }
  void encode(std::string_view text, std::vector<int32_t>& ids) override;
  std::string decode(std::span<const int32_t> ids) const override;  ///< end of text becomes nothing
  std::string model_bytes() const override { return {}; }
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<ByteTokenizer>(); }
};

}  // namespace longhaul
