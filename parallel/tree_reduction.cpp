#include "parallel/tree_reduction.h"

#include <algorithm>
#include <bit>

#include "kernels/error.h"

namespace longhaul {

SlotRange slots_of_rank(int64_t slots, int ranks, int rank) {
  if (slots < 1 || slots % ranks != 0) {
    throw user_error("{} micro-batch slots cannot be divided among {} ranks: choose slots as a multiple of the ranks",
                     slots, ranks);
  }
  const int64_t own = slots / ranks;
  return {rank * own, (rank + 1) * own};
}

int64_t left_slots(int64_t count) {
  if (count < 2) throw internal_error("a tree node of {} slots has no children", count);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count - 1)));
}

bool is_tree_node(int64_t slots, SlotRange range) {
  SlotRange node{0, slots};
  while (node != range) {
    if (node.count() < 2) return false;
    const int64_t split = node.begin + left_slots(node.count());
    if (range.end <= split) {
      node.end = split;
    } else if (range.begin >= split) {
      node.begin = split;
    } else {
      return false;
    }
  }
  return true;
}

int64_t SlotAccumulation::push(int64_t slot) {
  if (!stack_.empty() && stack_.back().end != slot) {
    throw internal_error("slot {} follows slot {}: slots must rise by one", slot, stack_.back().end - 1);
  }
  stack_.push_back({slot, slot + 1});
  return static_cast<int64_t>(stack_.size()) - 1;
}

std::vector<SlotAccumulation::Merge> SlotAccumulation::merge() {
  std::vector<Merge> merges;
  while (stack_.size() >= 2) {
    const SlotRange joined{stack_[stack_.size() - 2].begin, stack_.back().end};
    if (!is_tree_node(slots_, joined)) break;
    stack_.pop_back();
    stack_.back() = joined;
    const int64_t top = static_cast<int64_t>(stack_.size()) - 1;
    merges.push_back({top, top + 1});
  }
  return merges;
}

std::vector<SlotRange> SlotAccumulation::remaining(int64_t slots, SlotRange own) {
  SlotAccumulation accumulation(slots);
  for (int64_t slot = own.begin; slot < own.end; ++slot) {
    accumulation.push(slot);
    accumulation.merge();
  }
  return accumulation.partials();
}

int64_t SlotAccumulation::buffers_needed(int64_t slots, SlotRange own) {
  SlotAccumulation accumulation(slots);
  int64_t most = 0;
  for (int64_t slot = own.begin; slot < own.end; ++slot) {
    most = std::max(most, accumulation.push(slot) + 1);
    accumulation.merge();
  }
  return most;
}

}  // namespace longhaul
