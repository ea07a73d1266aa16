#include "data/tokenizers/byte_pair_tokenizer.h"

#include <queue>

#include "data/tokenizers/gpt2_pattern.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

// Ordinary words: look at all neighbours each time. Beyond this length a heap wins.
constexpr size_t kShortWord = 48;

void merge_short(const BytePairTables& tables, std::vector<int32_t>& ids) {
  std::array<Merge, kShortWord> merges;  // merges[i] joins ids[i] and ids[i + 1]
  size_t pairs = ids.size() - 1;
  for (size_t i = 0; i < pairs; ++i) merges[i] = tables.merge(ids[i], ids[i + 1]);
  while (pairs > 0) {
    size_t best = 0;
    for (size_t i = 1; i < pairs; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == Merge::kNone) break;
    ids[best] = merges[best].id;
    ids.erase(ids.begin() + static_cast<int64_t>(best) + 1);
    --pairs;
    std::copy(merges.begin() + best + 1, merges.begin() + pairs + 1, merges.begin() + best);
    if (best < pairs) merges[best] = tables.merge(ids[best], ids[best + 1]);
    if (best > 0) merges[best - 1] = tables.merge(ids[best - 1], ids[best]);
  }
}

// Symbols form a doubly linked list; the heap holds candidate merges, stale ones are recognised by their ids.
class LongWordMerger {
 public:
  LongWordMerger(const BytePairTables& tables, std::vector<int32_t>& ids) : tables_(tables), ids_(ids) {
    const auto count = static_cast<int64_t>(ids.size());
    for (int64_t i = 0; i < count; ++i) {
      previous_.push_back(i - 1);
      next_.push_back(i + 1 < count ? i + 1 : -1);
    }
    for (int64_t i = 0; i + 1 < count; ++i) offer(i);
  }

  void run() {
    while (!heap_.empty()) {
      const Candidate candidate = heap_.top();
      heap_.pop();
      const int64_t left = candidate.left, right = next_[left];
      if (ids_[left] != candidate.left_id || right < 0 || ids_[right] != candidate.right_id) continue;
      ids_[left] = candidate.merge.id;
      ids_[right] = -1;
      next_[left] = next_[right];
      if (next_[left] >= 0) previous_[next_[left]] = left;
      offer(left);
      if (previous_[left] >= 0) offer(previous_[left]);
    }
    std::erase(ids_, -1);
  }

 private:
  struct Candidate {
    Merge merge;
    int64_t left;
    int32_t left_id, right_id;
    bool operator<(const Candidate& other) const {  // the top of the heap is the lowest rank, then the leftmost
      return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : left > other.left;
    }
  };
  void offer(int64_t left) {
    const int64_t right = next_[left];
    if (right < 0) return;
    const Merge merge = tables_.merge(ids_[left], ids_[right]);
    if (merge.rank != Merge::kNone) heap_.push({merge, left, ids_[left], ids_[right]});
  }

  const BytePairTables& tables_;
  std::vector<int32_t>& ids_;
  std::vector<int64_t> previous_, next_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace

void merge_byte_pairs(const BytePairTables& tables, std::vector<int32_t>& ids) {
  if (ids.size() < 2) return;
  if (ids.size() <= kShortWord) {
    merge_short(tables, ids);
  } else {
    LongWordMerger(tables, ids).run();
  }
}

BytePairTokenizer::BytePairTokenizer(std::shared_ptr<const BytePairTables> tables) : tables_(std::move(tables)) {}

void BytePairTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) {
  ids.reserve(ids.size() + text.size() / 3);
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = gpt2_word_end(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    const bool cacheable = word.size() <= WordCache::kMaxBytes;
    WordCache::Key key;
    if (cacheable) {
      key = WordCache::key_of(word);
      if (cache_.find(key, ids)) continue;
    }
    word_ids_.clear();
    for (const char c : word) word_ids_.push_back(tables_->byte_id(static_cast<unsigned char>(c)));
    merge_byte_pairs(*tables_, word_ids_);
    if (cacheable) cache_.store(key, word_ids_);
    ids.insert(ids.end(), word_ids_.begin(), word_ids_.end());
  }
}

std::string BytePairTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw user_error("gpt2 tokenizer: found id {}, expected ids in [0, {})", id, vocab_size());
    }
    if (id != end_of_text()) text += tables_->token_bytes(id);
  }
  return text;
}

}  // namespace longhaul
