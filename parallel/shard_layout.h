// Who owns which part of the flat parameter buffers. The only place where ranks and parameters meet: everything is
// derived from the blocks of the ParameterStore, the number of ranks and the bucket size.
#pragma once

#include <cstdint>
#include <vector>

#include "core/nn/parameter_store.h"

namespace longhaul {

/// Elements [begin, end) of the flat buffers.
struct FlatRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const FlatRange&) const = default;
};

/// A run of blocks that is reduced as one unit, cut into one segment per rank. Segment s covers
/// [cuts[s], cuts[s + 1]) of the flat buffers, block-aligned, possibly empty.
struct Bucket {
  int64_t block_begin = 0, block_end = 0;          ///< into ParameterStore::blocks()
  int64_t parameter_begin = 0, parameter_end = 0;  ///< parameters that have a block in it
  std::vector<int64_t> cuts;                       ///< ranks + 1 flat offsets
  std::vector<int64_t> block_cuts;                 ///< ranks + 1 block indices
  FlatRange range() const { return {cuts.front(), cuts.back()}; }
  FlatRange segment(int64_t index) const { return {cuts[index], cuts[index + 1]}; }
};

class ShardLayout {
 public:
  static constexpr int64_t kDefaultBucketBytes = 16 << 20;

  /// Buckets of about `bucket_bytes` of gradients (f32 elements), in flat order.
  ShardLayout(const ParameterStore& store, int ranks, int64_t bucket_bytes = kDefaultBucketBytes);

  int ranks() const { return ranks_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Who owns segment s of every bucket. For a power of two the bits of s reversed, which is where recursive halving
  /// with distance 1 first leaves it; else s.
  int owner(int64_t segment) const { return owner_[segment]; }
  int64_t segment_of(int rank) const { return segment_[rank]; }
  FlatRange owned(int64_t bucket, int rank) const { return buckets_[bucket].segment(segment_[rank]); }
  /// Everything a rank owns: one range per bucket, in flat order, empty ones left out.
  std::vector<FlatRange> ranges(int rank) const;
  /// Blocks [begin, end) of a bucket that a rank owns.
  std::pair<int64_t, int64_t> owned_blocks(int64_t bucket, int rank) const;
  int64_t owned_count(int rank) const;  ///< elements, alignment gaps included

 private:
  int ranks_;
  std::vector<Bucket> buckets_;
  std::vector<int> owner_;
  std::vector<int64_t> segment_;
};

}  // namespace longhaul
