#include "data/tokenizers/gpt2_pattern.h"

#include <utf8proc.h>

#include <cstdint>
#include <vector>

#include "data/text/unicode.h"

namespace longhaul {
namespace {

enum class CharacterClass : uint8_t { kLetter, kNumber, kSpace, kOther };
constexpr int64_t kCodePoints = 0x110000;

CharacterClass classify(int32_t code_point) {
  if (is_white_space(code_point)) return CharacterClass::kSpace;
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::kNumber;
    default:
      return CharacterClass::kOther;
  }
}

const std::vector<CharacterClass>& class_table() {
  static const std::vector<CharacterClass> table = [] {
    std::vector<CharacterClass> classes(kCodePoints);
    for (int32_t code_point = 0; code_point < kCodePoints; ++code_point) classes[code_point] = classify(code_point);
    return classes;
  }();
  return table;
}

struct Character {
  CharacterClass kind;
  int length;  // bytes
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), classes_(class_table().data()) {}

  bool at_end(size_t at) const { return at >= text_.size(); }

  Character at(size_t position) const {
    const auto byte = static_cast<unsigned char>(text_[position]);
    if (byte < 0x80) return {classes_[byte], 1};
    utf8proc_int32_t code_point = -1;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text_.data()) + position;
    const auto length = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text_.size() - position), &code_point);
    if (length <= 0) return {CharacterClass::kOther, 1};
    return {classes_[code_point], static_cast<int>(length)};
  }

  size_t run_end(size_t position, CharacterClass kind) const {
    while (!at_end(position)) {
      const Character character = at(position);
      if (character.kind != kind) break;
      position += static_cast<size_t>(character.length);
    }
    return position;
  }

  // Length of 's 't 're 've 'm 'll 'd at an apostrophe, 0 when there is none.
  size_t contraction(size_t position) const {
    const std::string_view rest = text_.substr(position + 1, 2);
    if (rest.starts_with("re") || rest.starts_with("ve") || rest.starts_with("ll")) return 3;
    if (!rest.empty() && (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd')) return 2;
    return 0;
  }

  // \s+(?!\S)|\s+ : a run of spaces leaves its last one to the word that follows, unless it is alone or ends the text.
  size_t spaces_end(size_t begin) const {
    size_t last = begin, end = begin;
    while (!at_end(end)) {
      const Character character = at(end);
      if (character.kind != CharacterClass::kSpace) return last == begin ? end : last;
      last = end;
      end += static_cast<size_t>(character.length);
    }
    return end;
  }

 private:
  std::string_view text_;
  const CharacterClass* classes_;
};

}  // namespace

size_t gpt2_word_end(std::string_view text, size_t begin) {
  const Scanner scanner(text);
  if (text[begin] == '\'') {
    if (const size_t length = scanner.contraction(begin); length > 0) return begin + length;
  }
  const size_t start = text[begin] == ' ' ? begin + 1 : begin;
  if (!scanner.at_end(start)) {
    const Character first = scanner.at(start);
    if (first.kind != CharacterClass::kSpace) {
      return scanner.run_end(start + static_cast<size_t>(first.length), first.kind);
    }
  }
  return scanner.spaces_end(begin);
}

}  // namespace longhaul
