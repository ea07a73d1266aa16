#include "parallel/reduction_thread.h"

#include <chrono>
#include <utility>

namespace longhaul {
namespace {

/// Between two polls without progress: long enough to leave the core to the backward pass, short beside a 16 MiB
/// message.
constexpr auto kPollInterval = std::chrono::microseconds(50);

}  // namespace

ReductionThread::ReductionThread(int64_t buckets, int64_t in_flight, Start start, Events events)
    : buckets_(buckets),
      in_flight_(in_flight),
      start_(std::move(start)),
      events_(std::move(events)),
      ready_(static_cast<size_t>(buckets)),
      next_(buckets),
      done_(buckets),
      thread_([this] { run(); }) {}

ReductionThread::~ReductionThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReductionThread::begin_step() {
  const std::lock_guard lock(mutex_);
  ready_.assign(static_cast<size_t>(buckets_), false);
  next_ = 0;
  done_ = 0;
}

void ReductionThread::submit(int64_t bucket) {
  {
    const std::lock_guard lock(mutex_);
    ready_[bucket] = true;
  }
  changed_.notify_all();
}

void ReductionThread::finish() {
  std::unique_lock lock(mutex_);
  waiting_ = true;
  changed_.wait(lock, [this] { return failure_ || done_ == buckets_; });
  waiting_ = false;
  if (failure_) std::rethrow_exception(failure_);
}

bool ReductionThread::work_waits() const { return next_ < buckets_ && ready_[next_]; }

void ReductionThread::run() {
  std::vector<std::pair<int64_t, std::unique_ptr<BucketReduction>>> active;
  try {
    while (true) {
      std::vector<int64_t> starting;
      {
        std::unique_lock lock(mutex_);
        if (active.empty()) changed_.wait(lock, [this] { return stop_ || work_waits(); });
        if (stop_) return;
        while (work_waits() && static_cast<int64_t>(active.size() + starting.size()) < in_flight_) {
          starting.push_back(next_++);
        }
      }
      for (const int64_t bucket : starting) {
        events_.started(bucket);
        active.emplace_back(bucket, start_(bucket));
      }
      const auto finished = std::erase_if(active, [this](auto& entry) {
        if (!entry.second->advance()) return false;
        events_.done(entry.first);
        return true;
      });
      if (finished > 0) {
        const std::lock_guard lock(mutex_);
        done_ += static_cast<int64_t>(finished);
        changed_.notify_all();
      } else {
        std::this_thread::sleep_for(kPollInterval);
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

}  // namespace longhaul
