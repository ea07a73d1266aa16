// A fixed list of words: id i is word i. For synthetic tasks whose documents are made of ids, so that prompts and
// samples can be written and read.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace longhaul {

class WordTokenizer final : public Tokenizer {
 public:
  static constexpr const char* kName = "words";

  /// The last word ends a text. user_error unless there are at least 2 words, all different, none empty or with white
  /// space.
  explicit WordTokenizer(std::vector<std::string> words);
  static WordTokenizer from_bytes(const std::string& bytes);  ///< of model_bytes()

  using Tokenizer::encode;
  std::string name() const override { return kName; }
  int64_t vocab_size() const override { return static_cast<int64_t>(words_.size()); }
  int32_t end_of_text() const override { return static_cast<int32_t>(words_.size()) - 1; }
  /// Words between white space. user_error naming a word that is not in the list (the last word never is).
  void encode(std::string_view text, std::vector<int32_t>& ids) override;
  std::string decode(std::span<const int32_t> ids) const override;  ///< " word" for each id; end of text: nothing
  std::string model_bytes() const override;                         ///< one word a line
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<WordTokenizer>(*this); }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace longhaul
