// Sums over micro-batch slots along ONE fixed binary tree, whatever the ranks: the node of n slots splits at the
// largest power of two below n. So a sum has the same bits for every number of ranks that divides the slots.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/tensor/tensor.h"
#include "parallel/shard_layout.h"

namespace longhaul {

/// A run of slots [begin, end).
struct SlotRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const SlotRange&) const = default;
};

/// The slots of one rank: [rank * slots / ranks, (rank + 1) * slots / ranks). user_error when ranks does not divide
/// slots.
SlotRange slots_of_rank(int64_t slots, int ranks, int rank);

/// Number of slots in the left child of a node of `count` >= 2 slots: the largest power of two below count.
int64_t left_slots(int64_t count);

/// Is `range` a node of the tree over `slots`?
bool is_tree_node(int64_t slots, SlotRange range);

/// The order of additions within one rank: a stack of partial sums over complete subtrees. After slot i was pushed,
/// merges() says which neighbouring partial sums are to be added; only about log2(slots) of them are ever alive.
class SlotAccumulation {
 public:
  struct Merge {
    int64_t into, from;  ///< stack positions: into += from, from = into + 1
  };
  explicit SlotAccumulation(int64_t slots) : slots_(slots) {}

  /// Adds slot `slot` (rising by one from the first) on top of the stack; returns its position.
  int64_t push(int64_t slot);
  /// The merges now due, in order; the stack is as after them.
  std::vector<Merge> merge();
  /// Partial sums alive: the subtrees they cover.
  const std::vector<SlotRange>& partials() const { return stack_; }
  void clear() { stack_.clear(); }

  /// The partial sums that remain of a run of slots: its maximal complete subtrees.
  static std::vector<SlotRange> remaining(int64_t slots, SlotRange own);
  /// The most partial sums alive at once while a rank works through `own`: how many gradient buffers it needs.
  static int64_t buffers_needed(int64_t slots, SlotRange own);

 private:
  int64_t slots_;
  std::vector<SlotRange> stack_;
};

/// How partial sums of the ranks are added.
enum class ReductionOrder {
  fixed_tree,  ///< along the tree over slots: bits do not depend on the number of ranks
  unordered,   ///< each rank adds its slots one after the other into one buffer, then the ranks' sums are added: one
              ///< buffer and less traffic, bits depend on the number of ranks
};

/// The reduction of one bucket over the ranks, in flight. Afterwards each rank holds the sum of the segment it owns.
class BucketReduction {
 public:
  virtual ~BucketReduction() = default;
  /// Makes progress without blocking; true when the sum is complete and no buffer is in use any more.
  virtual bool advance() = 0;
};

/// Starts reducing `bucket`. `partials` are flat gradient buffers, one for each of this rank's remaining partial sums;
/// the sum lands in the own segment of partials[0] (the others are scratch). Recursive halving when every rank holds
/// one complete subtree and their number is a power of two (the pairs of halving at distance 1, 2, 4, ... are the
/// tree); else every partial sum goes to the owner of the segment, who adds along the tree. `tag`: 0 to 8191, different
/// for buckets in flight together.
std::unique_ptr<BucketReduction> start_bucket_reduction(Communicator& group, const ShardLayout& layout, int64_t bucket,
                                                        int64_t slots, ReductionOrder order,
                                                        std::vector<Tensor> partials, int tag);

}  // namespace longhaul
