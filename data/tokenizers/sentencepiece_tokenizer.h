// SentencePiece (Kudo and Richardson 2018): a given .model file, or one trained here.
#pragma once

#include <functional>

#include "data/tokenizers/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace longhaul {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  static constexpr const char* kName = "sentencepiece";
  /// From the bytes of a .model file; user_error when they are no model or the model has no end-of-sentence piece.
  explicit SentencePieceTokenizer(std::string model);

  using Tokenizer::encode;
  std::string name() const override { return kName; }
  int64_t vocab_size() const override;
  int32_t end_of_text() const override;
  void encode(std::string_view text, std::vector<int32_t>& ids) override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string model_bytes() const override { return *model_; }
  std::unique_ptr<Tokenizer> clone() const override;

 private:
  struct Shared {};  // selects the constructor used by clone()
  SentencePieceTokenizer(Shared, const SentencePieceTokenizer& other);
  std::shared_ptr<const std::string> model_;
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;  // const calls are thread-safe
};

/// Trains a BPE model with exactly `vocab_size` pieces on lines of text (`next_line` fills one and returns false at the
/// end). Spaces are kept as they are, unknown characters fall back to bytes, so that every text can be decoded exactly.
/// One thread, no sampling: the same lines give the same model. user_error when the text is too small for the
/// vocabulary.
std::string train_sentencepiece(const std::function<bool(std::string&)>& next_line, int64_t vocab_size);

}  // namespace longhaul
