#include "data/tokenizers/word_tokenizer.h"

#include <utility>

#include "kernels/error.h"

namespace longhaul {
namespace {
constexpr const char* kWhiteSpace = " \t\r\n\v\f";
}

WordTokenizer::WordTokenizer(std::vector<std::string> words) : words_(std::move(words)) {
  if (words_.size() < 2) throw user_error("words tokenizer: found {} words, expected at least 2", words_.size());
  for (const std::string& word : words_) {
    if (word.empty() || word.find_first_of(kWhiteSpace) != std::string::npos) {
      throw user_error("words tokenizer: found the word '{}', expected words without white space", word);
    }
    if (!ids_.emplace(word, static_cast<int32_t>(ids_.size())).second) {
      throw user_error("words tokenizer: found the word '{}' twice, expected different words", word);
    }
  }
}

WordTokenizer WordTokenizer::from_bytes(const std::string& bytes) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    words.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  return WordTokenizer(std::move(words));
}

void WordTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) {
  for (size_t begin = text.find_first_not_of(kWhiteSpace); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kWhiteSpace, begin), text.size());
    const std::string word(text.substr(begin, end - begin));
    const auto found = ids_.find(word);
    if (found == ids_.end() || found->second == end_of_text()) {
      throw user_error("words tokenizer: found '{}', expected one of its {} words, like '{}'", word, words_.size() - 1,
                       words_.front());
    }
    ids.push_back(found->second);
    begin = text.find_first_not_of(kWhiteSpace, end);
  }
}

std::string WordTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw user_error("words tokenizer: found id {}, expected ids in [0, {})", id, vocab_size());
    }
    if (id != end_of_text()) text += " " + words_[static_cast<size_t>(id)];
  }
  return text;
}

std::string WordTokenizer::model_bytes() const {
  std::string bytes;
  for (const std::string& word : words_) bytes += word + "\n";
  return bytes;
}

}  // namespace longhaul
