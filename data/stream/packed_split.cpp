#include "data/stream/packed_split.h"

#include <algorithm>

#include "kernels/error.h"

namespace longhaul {

PackedSplit::PackedSplit(const DatasetChoice& choice, const DataConfig& config, const std::string& split)
    : dataset_(choice.directory, config.verify, config.open_shards),
      context_(config.context),
      document_mask_(config.document_mask),
      shards_(dataset_.shards_of(split)),
      empty_shards_(dataset_.empty_shards(split)) {
  if (context_ < 1) throw user_error("data.context: {} tokens, expected at least 1", context_);
  for (const int64_t index : shards_) {
    shard_begin_.push_back(tokens_);
    tokens_ += dataset_.manifest().shards[static_cast<size_t>(index)].tokens;
  }
  if (tokens_ == 0) {
    throw user_error("dataset {}: split {} has 0 tokens; tokenize with a larger share for it, or name another split",
                     choice.directory.string(), split);
  }
}

void PackedSplit::read_tokens(int64_t begin, int64_t count) {
  tokens_read_.resize(static_cast<size_t>(count));
  opens_document_.assign(static_cast<size_t>(count), 0);
  is_target_.resize(static_cast<size_t>(count));
  for (int64_t done = 0; done < count;) {
    const auto after = std::upper_bound(shard_begin_.begin(), shard_begin_.end(), begin + done);
    const auto which = static_cast<size_t>(after - shard_begin_.begin() - 1);
    const Shard& shard = dataset_.shard(shards_[which]);
    const int64_t local = begin + done - shard_begin_[which];
    const int64_t length = std::min(count - done, shard.tokens() - local);
    const auto from = static_cast<size_t>(done), read = static_cast<size_t>(length);
    shard.read(local, std::span(tokens_read_).subspan(from, read));
    shard.read_target_mask(local, std::span(is_target_).subspan(from, read));
    const auto offsets = shard.offsets();
    for (auto d = static_cast<size_t>(shard.document_of(local)); offsets[d] < local + length; ++d) {
      if (offsets[d] >= local) opens_document_[static_cast<size_t>(done + offsets[d] - local)] = 1;
    }
    done += length;
  }
}

void PackedSplit::read_row(int64_t row, const RowBuffers& out) {
  const int64_t begin = row * context_, real = std::min(context_, tokens_ - begin);
  // One token more for the last target, unless masks make it needless: a shard begins with a document.
  const bool shard_ends = std::binary_search(shard_begin_.begin(), shard_begin_.end(), begin + real);
  const bool one_more = begin + real < tokens_ && !(document_mask_ && shard_ends);
  read_tokens(begin, real + one_more);
  int32_t start = 0;
  for (int64_t t = 0; t < real; ++t) {
    const auto here = static_cast<size_t>(t);
    if (document_mask_ && opens_document_[here]) start = static_cast<int32_t>(t);
    const bool has_target =
        t + 1 < real + one_more && is_target_[here + 1] != 0 && !(document_mask_ && opens_document_[here + 1]);
    out.ids[t] = tokens_read_[here];
    out.targets[t] = has_target ? tokens_read_[here + 1] : -1;
    out.document_start[t] = start;
  }
  fill_padding(out, real);
}

void PackedSplit::fill_padding(const RowBuffers& out, int64_t from) const {
  for (int64_t t = from; t < context_; ++t) {
    out.ids[t] = dataset_.manifest().tokenizer.end_of_text;
    out.targets[t] = -1;
    out.document_start[t] = document_mask_ ? static_cast<int32_t>(from) : 0;
  }
}

}  // namespace longhaul
