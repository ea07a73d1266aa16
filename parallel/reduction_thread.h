// The thread that reduces buckets over the ranks while the main thread differentiates.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/bucket_reduction.h"

namespace longhaul {

/// Starts the reductions of a step in bucket order as their buckets become ready, a bounded number at a time, and polls
/// them.
class ReductionThread {
 public:
  /// Starts the reduction of one bucket; runs on the thread.
  using Start = std::function<std::unique_ptr<BucketReduction>(int64_t bucket)>;
  /// Called on the thread when bucket was started / is done.
  struct Events {
    std::function<void(int64_t bucket)> started, done;
  };

  ReductionThread(int64_t buckets, int64_t in_flight, Start start, Events events);
  ~ReductionThread();  ///< gives up what is in flight; never waits for other ranks
  ReductionThread(const ReductionThread&) = delete;
  ReductionThread& operator=(const ReductionThread&) = delete;

  void begin_step();
  void submit(int64_t bucket);  ///< in any order
  /// Waits until every bucket of the step is done. Rethrows a failure of the thread.
  void finish();
  bool waiting() const { return waiting_; }  ///< is a thread inside finish()?

 private:
  void run();
  bool work_waits() const;  ///< under mutex_

  const int64_t buckets_, in_flight_;
  const Start start_;
  const Events events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ready_;
  int64_t next_ = 0;  ///< first bucket not yet started
  int64_t done_ = 0;
  bool stop_ = false;
  std::atomic<bool> waiting_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace longhaul
