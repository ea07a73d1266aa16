// The sum of one bucket of gradients over the ranks, along the tree of tree_reduction.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/tensor/tensor.h"
#include "parallel/shard_layout.h"
#include "parallel/tree_reduction.h"

namespace longhaul {

/// How partial sums of the ranks are added.
enum class ReductionOrder {
  fixed_tree,  ///< along the tree over slots: bits do not depend on the number of ranks
  unordered,   ///< each rank adds its slots one after the other into one buffer, then the ranks' sums are added: fewer
               ///< buffers and less traffic, bits depend on the number of ranks
};

/// The slots that ranks seem to own when their sums are added: all of them, or one for each rank (unordered).
int64_t reduction_slots(ReductionOrder order, int64_t slots, int ranks);

/// A bucket in flight. Afterwards each rank holds the sum of the segment it owns.
class BucketReduction {
 public:
  virtual ~BucketReduction() = default;
  /// Makes progress without blocking; true when the sum is complete and no buffer is in use any more.
  virtual bool advance() = 0;
};

/// Starts reducing `bucket` over `slots` (see reduction_slots). `partials`: flat gradient buffers (f32 or f64), one for
/// each of this rank's SlotAccumulation::remaining(); the sum lands in the own segment of partials[0], the others and
/// the rest of it are scratch. Recursive halving when every rank holds one complete subtree and their number is a power
/// of two (its pairs at distance 1, 2, 4, ... are the tree); else every partial sum goes to the owner of the segment,
/// who adds along the tree. Both move each element about once. `tag`: 0 to 8191, different for buckets in flight
/// together.
std::unique_ptr<BucketReduction> start_bucket_reduction(Communicator& group, const ShardLayout& layout, int64_t bucket,
                                                        int64_t slots, std::vector<Tensor> partials, int tag);

}  // namespace longhaul
