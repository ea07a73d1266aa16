// A small task that needs exact recall (models.md section 6): pairs of a key and its value are stored, noise follows,
// then some keys are asked for.
//
//   STORE key value ... STORE key value  noise ... noise  QUERY key value ... QUERY key value  end ... end
//
// Symbols have ids 0 to V - 1, then come STORE (V), QUERY (V + 1) and end of text (V + 2). Keys, values and noise are
// drawn from the same symbols: only its place tells what a symbol is, so chance is 1 / V. The keys of a document
// differ; a value is any symbol. Asked for are stored keys, none twice before each was asked once. Target masks
// allow the answers alone, one per query, or all that can be predicted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

/// How many there are of something in a document: uniform in [least, most].
struct CountRange {
  int64_t least = 0, most = 0;
};

enum class NoisePattern : uint8_t {
  kRandom,   ///< independent uniform symbols
  kCounting  ///< a uniform first symbol, then each one more than that before it, modulo V: can be predicted
};

struct RetrievalOptions {
  int64_t vocabulary = 16;  ///< V, symbols
  CountRange pairs = {2, 5}, noise = {50, 150}, queries = {3, 8};
  int64_t length = 256;  ///< tokens of every document, filled up with end-of-text ids: a row of a stream whose context
                         ///< is this length holds one whole document
  NoisePattern pattern = NoisePattern::kRandom;
};

/// user_error, naming the option of `longhaul synth retrieval`, for what no document can satisfy.
void check_retrieval_options(const RetrievalOptions& options);
/// The names of all ids: "0", ..., "V-1", "STORE", "QUERY", "<end>".
std::vector<std::string> retrieval_words(int64_t vocabulary);

struct RetrievalDocument {
  std::vector<int32_t> ids;
  std::vector<uint8_t> answers;      ///< target mask: the values behind QUERY key
  std::vector<uint8_t> predictable;  ///< target mask: what follows from the tokens before it: the answers, counting
                                     ///< noise but its first token, and <end> behind <end>
};

/// Document `number`, a function of (options, seed, number) alone.
RetrievalDocument retrieval_document(const RetrievalOptions& options, uint64_t seed, int64_t number);

}  // namespace longhaul
