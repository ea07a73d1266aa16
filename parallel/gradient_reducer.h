// Gradients of a step: owns the flat gradient buffers, adds the slots of this rank along the fixed tree, and reduces
// buckets over the ranks on a thread of its own while the backward pass of the last slot still runs.
//
//   for (slot in reducer.slots()) { reducer.begin_slot(slot); forward; backward; reducer.end_slot(); }
//   agree(group, ...);                        // a rank that failed must be known before finish() waits for it
//   const Tensor& gradients = reducer.finish();   // own segments hold the sum over all slots of all ranks
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/nn/parameter_store.h"
#include "parallel/bucket_reduction.h"
#include "parallel/shard_layout.h"
#include "parallel/tree_reduction.h"

namespace longhaul {

struct GradientReducerOptions {
  int64_t slots = 1;    ///< S, micro-batches of a global step; the number of ranks divides it
  bool overlap = true;  ///< reduce while backward runs; off: after it. Same bits.
  ReductionOrder order = ReductionOrder::fixed_tree;
  int64_t buckets_in_flight = 4;  ///< bounds the memory for received partial sums
};

/// When what happened to a bucket, in seconds since begin_slot of the last own slot.
struct BucketTimes {
  double ready = 0;    ///< every gradient in it final, local sums done
  double started = 0;  ///< first message posted
  double done = 0;     ///< sum complete
};
struct ReductionTimeline {
  std::vector<BucketTimes> buckets;
  double backward_end = 0;  ///< end_slot of the last own slot
  double finished = 0;      ///< finish() returned
  /// Communication the backward pass did not hide.
  double exposed_seconds() const { return finished - backward_end; }
};

class GradientReducer {
 public:
  /// Allocates the gradient buffers (f32, or f64 for a store in f64): as many as there are partial sums alive at once.
  /// Installs the gradient callbacks of every parameter; `store`, `layout` and `group` must outlive the reducer.
  GradientReducer(ParameterStore& store, const ShardLayout& layout, Communicator& group,
                  const GradientReducerOptions& options);
  ~GradientReducer();  ///< stops the thread and removes the callbacks; never waits for other ranks
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  SlotRange slots() const;  ///< of this rank
  int64_t buffer_count() const;
  /// Binds the store's gradients for global slot number `slot`; rising from slots().begin.
  void begin_slot(int64_t slot);
  void end_slot();
  /// After the last slot: waits for the reduction. The flat buffer whose own segments (layout.ranges(rank)) hold the
  /// sums; the rest of it is undefined. Valid until the next begin_slot. Rethrows a failure of the communication
  /// thread.
  const Tensor& finish();
  /// Is a thread inside finish(), waiting for other ranks? From any thread, for the watchdog.
  bool waiting() const;
  const ReductionTimeline& timeline() const;  ///< of the last finished step

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul
