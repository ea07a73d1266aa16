#include "parallel/bucket_reduction.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "kernels/error.h"

namespace longhaul {
namespace {

/// into += from, on the calling thread alone: the OpenMP team belongs to the backward pass that runs meanwhile.
void add_into(DType dtype, std::byte* into, const std::byte* from, int64_t count) {
  dispatch_float("bucket reduction", dtype, [&]<typename T>(T) {
    T* __restrict sum = reinterpret_cast<T*>(into);
    const T* __restrict term = reinterpret_cast<const T*>(from);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += term[i];
  });
}

/// The bytes of `range` of a flat buffer.
std::span<std::byte> bytes_of(const Tensor& flat, FlatRange range) {
  const int64_t size = size_of(flat.dtype());
  return {flat.raw() + range.begin * size, static_cast<size_t>(range.count() * size)};
}

/// Tests the transfers once; true when all are done.
bool all_done(std::vector<std::unique_ptr<Transfer>>& transfers) {
  std::erase_if(transfers, [](const auto& transfer) { return transfer->test(); });
  return transfers.empty();
}

/// Recursive halving, distance 1 first. In each round partners exchange halves of what both still hold.
class HalvingReduction : public BucketReduction {
 public:
  HalvingReduction(Communicator& group, const Bucket& bucket, Tensor flat, int tag)
      : group_(group), bucket_(bucket), flat_(std::move(flat)), tag_(tag), high_(group.size()) {
    start_round();
  }

  bool advance() override {
    while (distance_ < group_.size()) {
      if (receive_ && !receive_->test()) return false;
      receive_.reset();
      const auto kept = bytes_of(flat_, kept_);
      if (kept_.count() > 0) add_into(flat_.dtype(), kept.data(), received_.raw(), kept_.count());
      distance_ *= 2;
      start_round();
    }
    return all_done(sends_);
  }

 private:
  FlatRange segments(int64_t low, int64_t high) const { return {bucket_.cuts[low], bucket_.cuts[high]}; }

  void start_round() {
    if (distance_ >= group_.size()) return;
    const int partner = group_.rank() ^ distance_;
    const int64_t middle = (low_ + high_) / 2;
    const bool keeps_low = (group_.rank() & distance_) == 0;
    const FlatRange given = keeps_low ? segments(middle, high_) : segments(low_, middle);
    kept_ = keeps_low ? segments(low_, middle) : segments(middle, high_);
    (keeps_low ? high_ : low_) = middle;
    if (!received_.defined()) received_ = Tensor::empty({std::max<int64_t>(kept_.count(), 1)}, flat_.dtype());
    if (kept_.count() > 0) receive_ = group_.receive(bytes_of(received_, {0, kept_.count()}), partner, tag_);
    if (given.count() > 0) sends_.push_back(group_.send(bytes_of(flat_, given), partner, tag_));
  }

  Communicator& group_;
  const Bucket& bucket_;
  Tensor flat_;
  int tag_;
  int distance_ = 1;
  int64_t low_ = 0, high_;  ///< segments still held
  FlatRange kept_;
  Tensor received_;
  std::unique_ptr<Transfer> receive_;
  std::vector<std::unique_ptr<Transfer>> sends_;
};

/// Every partial sum of a segment goes straight to its owner, who adds them along the tree.
class DirectReduction : public BucketReduction {
 public:
  DirectReduction(Communicator& group, const ShardLayout& layout, int64_t bucket, int64_t slots,
                  std::vector<Tensor> partials, int tag)
      : partials_(std::move(partials)), own_(layout.owned(bucket, group.rank())), slots_(slots) {
    const auto subtrees = [&](int rank) {
      return SlotAccumulation::remaining(slots, slots_of_rank(slots, group.size(), rank));
    };
    const auto mine = subtrees(group.rank());
    for (size_t i = 0; i < mine.size(); ++i) add_leaf(mine[i], bytes_of(partials_[i], own_).data());
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) continue;
      if (own_.count() > 0) {
        for (const SlotRange& subtree : subtrees(peer)) {
          received_.push_back(Tensor::empty({own_.count()}, partials_[0].dtype()));
          const auto bytes = bytes_of(received_.back(), {0, own_.count()});
          transfers_.push_back(group.receive(bytes, peer, tag));
          add_leaf(subtree, bytes.data());
        }
      }
      const FlatRange theirs = layout.owned(bucket, peer);
      if (theirs.count() == 0) continue;
      for (const Tensor& partial : partials_) transfers_.push_back(group.send(bytes_of(partial, theirs), peer, tag));
    }
  }

  bool advance() override {
    if (done_) return true;
    if (!all_done(transfers_)) return false;
    if (own_.count() > 0) {
      const auto target = bytes_of(partials_[0], own_);
      const std::byte* total = sum({0, slots_});
      if (total != target.data()) std::memcpy(target.data(), total, target.size());
    }
    received_.clear();
    return done_ = true;
  }

 private:
  void add_leaf(SlotRange subtree, std::byte* data) { leaves_[{subtree.begin, subtree.end}] = data; }

  /// The sum of a node, formed in the memory of its leftmost leaf.
  std::byte* sum(SlotRange node) {
    const auto leaf = leaves_.find({node.begin, node.end});
    if (leaf != leaves_.end()) return leaf->second;
    const int64_t split = node.begin + left_slots(node.count());
    std::byte* left = sum({node.begin, split});
    add_into(partials_[0].dtype(), left, sum({split, node.end}), own_.count());
    return left;
  }

  std::vector<Tensor> partials_;
  FlatRange own_;
  int64_t slots_;
  std::map<std::pair<int64_t, int64_t>, std::byte*> leaves_;
  std::vector<Tensor> received_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  bool done_ = false;
};

}  // namespace

int64_t reduction_slots(ReductionOrder order, int64_t slots, int ranks) {
  return order == ReductionOrder::fixed_tree ? slots : ranks;
}

std::unique_ptr<BucketReduction> start_bucket_reduction(Communicator& group, const ShardLayout& layout, int64_t bucket,
                                                        int64_t slots, std::vector<Tensor> partials, int tag) {
  const auto mine = SlotAccumulation::remaining(slots, slots_of_rank(slots, group.size(), group.rank()));
  if (mine.size() != partials.size() || layout.ranks() != group.size()) {
    throw internal_error("reduction of {} partial sums over {} ranks; expected {} over {}", partials.size(),
                         group.size(), mine.size(), layout.ranks());
  }
  const uint64_t ranks = static_cast<uint64_t>(group.size());
  const uint64_t own = static_cast<uint64_t>(slots) / ranks;
  if (std::has_single_bit(ranks) && std::has_single_bit(own)) {
    return std::make_unique<HalvingReduction>(group, layout.buckets()[bucket], std::move(partials[0]), tag);
  }
  return std::make_unique<DirectReduction>(group, layout, bucket, slots, std::move(partials), tag);
}

}  // namespace longhaul
