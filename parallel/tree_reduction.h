// Sums over micro-batch slots along ONE fixed binary tree, whatever the ranks: the node of n slots splits at the
// largest power of two below n. So a sum has the same bits for every number of ranks that divides the slots.
#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace longhaul
