#include "parallel/shard_layout.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/error.h"

namespace longhaul {
namespace {

int64_t reverse_bits(int64_t value, int bits) {
  int64_t reversed = 0;
  for (int bit = 0; bit < bits; ++bit) reversed |= ((value >> bit) & 1) << (bits - 1 - bit);
  return reversed;
}

/// Where block `index` starts in the flat buffers; one past the last block: where the buffers end.
int64_t block_offset(const ParameterStore& store, int64_t index) {
  const auto& blocks = store.blocks();
  return index < static_cast<int64_t>(blocks.size()) ? blocks[index].offset : store.flat_count();
}

/// Cuts the blocks of a bucket so that segment s ends as near as possible to its fair share of elements.
Bucket make_bucket(const ParameterStore& store, int64_t block_begin, int64_t block_end, int ranks) {
  Bucket bucket{
      block_begin, block_end, store.blocks()[block_begin].parameter, store.blocks()[block_end - 1].parameter + 1,
      {},          {}};
  const int64_t begin = block_offset(store, block_begin);
  const int64_t total = block_offset(store, block_end) - begin;
  int64_t block = block_begin;
  for (int segment = 0; segment <= ranks; ++segment) {
    const int64_t target = begin + total / ranks * segment + total % ranks * segment / ranks;
    while (block < block_end && block_offset(store, block + 1) - target <= target - block_offset(store, block)) ++block;
    if (segment == ranks) block = block_end;
    bucket.block_cuts.push_back(block);
    bucket.cuts.push_back(block_offset(store, block));
  }
  return bucket;
}

}  // namespace

ShardLayout::ShardLayout(const ParameterStore& store, int ranks, int64_t bucket_bytes) : ranks_(ranks) {
  if (ranks < 1) throw internal_error("shard layout for {} ranks", ranks);
  if (bucket_bytes < 1) throw user_error("bucket of {} bytes: expected at least 1", bucket_bytes);
  const int64_t blocks = static_cast<int64_t>(store.blocks().size());
  const int64_t bucket_elements = std::max<int64_t>(1, bucket_bytes / static_cast<int64_t>(sizeof(float)));
  for (int64_t begin = 0; begin < blocks;) {
    int64_t end = begin + 1;
    while (end < blocks && block_offset(store, end + 1) - block_offset(store, begin) <= bucket_elements) ++end;
    buckets_.push_back(make_bucket(store, begin, end, ranks));
    begin = end;
  }
  const bool power_of_two = std::has_single_bit(static_cast<uint64_t>(ranks));
  const int bits = std::countr_zero(static_cast<uint64_t>(ranks));
  segment_.resize(ranks);
  owner_.resize(ranks);
  for (int64_t segment = 0; segment < ranks; ++segment) {
    const int64_t owner = power_of_two ? reverse_bits(segment, bits) : segment;
    owner_[segment] = static_cast<int>(owner);
    segment_[owner] = segment;
  }
}

std::vector<FlatRange> ShardLayout::ranges(int rank) const {
  std::vector<FlatRange> result;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const FlatRange range = owned(static_cast<int64_t>(bucket), rank);
    if (range.count() > 0) result.push_back(range);
  }
  return result;
}

std::pair<int64_t, int64_t> ShardLayout::owned_blocks(int64_t bucket, int rank) const {
  const auto& cuts = buckets_[bucket].block_cuts;
  return {cuts[segment_[rank]], cuts[segment_[rank] + 1]};
}

int64_t ShardLayout::owned_count(int rank) const {
  int64_t count = 0;
  for (const FlatRange& range : ranges(rank)) count += range.count();
  return count;
}

}  // namespace longhaul
