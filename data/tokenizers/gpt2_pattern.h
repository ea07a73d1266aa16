// The split pattern of GPT-2 (openai/gpt-2, src/encoder.py) as a hand-written scanner over UTF-8:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#pragma once

#include <cstddef>
#include <string_view>

namespace longhaul {

/// End of the word that begins at text[begin]; begin < text.size(). Words tile the text: nothing is skipped.
/// A byte that is no valid UTF-8 counts as one character that is neither letter, digit nor space.
size_t gpt2_word_end(std::string_view text, size_t begin);

}  // namespace longhaul
