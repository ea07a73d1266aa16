#include "data/synthetic/retrieval_task.h"

#include <numeric>
#include <utility>

#include "kernels/error.h"
#include "kernels/philox.h"

namespace longhaul {
namespace {

constexpr uint32_t kTaskDraw = 0x52455452;  // purpose of the random stream
constexpr int64_t kMostSymbols = int64_t{1} << 20;
constexpr int64_t kLongest = int64_t{1} << 24;

/// The draws of one document, in the order in which it is written.
class Draws {
 public:
  Draws(uint64_t seed, int64_t document) : seed_(seed), document_(static_cast<uint64_t>(document)) {}

  int64_t below(int64_t bound) {
    if (next_ % 4 == 0) kernels::random_bits4({seed_, 0, kTaskDraw}, document_, next_ / 4, bits_);
    return static_cast<int64_t>(uint64_t{bits_[next_++ % 4]} * static_cast<uint64_t>(bound) >> 32);
  }
  int64_t in(const CountRange& range) { return range.least + below(range.most - range.least + 1); }
  /// Moves `count` random elements, without repetition, to the front.
  void choose(std::vector<int32_t>& from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t other = i + below(static_cast<int64_t>(from.size()) - i);
      std::swap(from[static_cast<size_t>(i)], from[static_cast<size_t>(other)]);
    }
  }

 private:
  uint64_t seed_, document_, next_ = 0;
  uint32_t bits_[4] = {};
};

void check_range(const char* option, const CountRange& range, int64_t least, int64_t most) {
  if (least <= range.least && range.least <= range.most && range.most <= most) return;
  throw user_error("--{} {}:{}: expected LEAST:MOST with {} <= LEAST <= MOST <= {}", option, range.least, range.most,
                   least, most);
}

}  // namespace

void check_retrieval_options(const RetrievalOptions& options) {
  if (options.vocabulary < 2 || options.vocabulary > kMostSymbols) {
    throw user_error("--vocabulary {}: expected 2 to {} symbols", options.vocabulary, kMostSymbols);
  }
  if (options.length < 1 || options.length > kLongest) {
    throw user_error("--length {}: expected 1 to {} tokens", options.length, kLongest);
  }
  check_range("pairs", options.pairs, 1, options.vocabulary);  // keys differ
  check_range("noise", options.noise, 0, kLongest);
  check_range("queries", options.queries, 1, kLongest);
  const int64_t longest = 3 * options.pairs.most + options.noise.most + 3 * options.queries.most + 1;
  if (longest > options.length) {
    throw user_error(
        "--length {}: {} pairs, {} noise tokens and {} queries need up to {} tokens; raise it or ask for less",
        options.length, options.pairs.most, options.noise.most, options.queries.most, longest);
  }
}

std::vector<std::string> retrieval_words(int64_t vocabulary) {
  std::vector<std::string> words;
  for (int64_t symbol = 0; symbol < vocabulary; ++symbol) words.push_back(std::to_string(symbol));
  words.insert(words.end(), {"STORE", "QUERY", "<end>"});
  return words;
}

RetrievalDocument retrieval_document(const RetrievalOptions& options, uint64_t seed, int64_t number) {
  const auto symbols = static_cast<int32_t>(options.vocabulary);
  const int32_t store = symbols, query = symbols + 1, end = symbols + 2;
  Draws draws(seed, number);
  const int64_t pairs = draws.in(options.pairs), noise = draws.in(options.noise), queries = draws.in(options.queries);
  std::vector<int32_t> keys(static_cast<size_t>(symbols)), values, asked(static_cast<size_t>(pairs));
  std::iota(keys.begin(), keys.end(), 0);
  draws.choose(keys, pairs);
  RetrievalDocument document;
  for (int64_t i = 0; i < pairs; ++i) {
    values.push_back(static_cast<int32_t>(draws.below(symbols)));
    document.ids.insert(document.ids.end(), {store, keys[static_cast<size_t>(i)], values.back()});
  }
  const auto length = static_cast<size_t>(options.length);
  document.answers.assign(length, 0);
  document.predictable.assign(length, 0);
  auto symbol = static_cast<int32_t>(noise > 0 ? draws.below(symbols) : 0);
  for (int64_t i = 0; i < noise; ++i) {
    document.predictable[document.ids.size()] = i > 0 && options.pattern == NoisePattern::kCounting;
    document.ids.push_back(symbol);
    symbol = options.pattern == NoisePattern::kCounting ? (symbol + 1) % symbols
                                                        : static_cast<int32_t>(draws.below(symbols));
  }
  std::iota(asked.begin(), asked.end(), 0);
  for (int64_t i = 0; i < queries; ++i) {
    if (i % pairs == 0) draws.choose(asked, pairs);
    const auto pair = static_cast<size_t>(asked[static_cast<size_t>(i % pairs)]);
    document.answers[document.ids.size() + 2] = document.predictable[document.ids.size() + 2] = 1;
    document.ids.insert(document.ids.end(), {query, keys[pair], values[pair]});
  }
  for (size_t t = document.ids.size() + 1; t < length; ++t) document.predictable[t] = 1;
  document.ids.resize(length, end);
  return document;
}

}  // namespace longhaul
