// A group whose ranks are threads of one process: multi-rank code as ordinary unit tests, also under ThreadSanitizer.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "kernels/error.h"

namespace longhaul::testing {

/// What the ranks of one group share.
struct ThreadGroup {
  explicit ThreadGroup(int size_in) : size(size_in), contributions(static_cast<size_t>(size_in)) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  int64_t round = 0;
  bool failed = false;  ///< a rank threw: whoever waits for it throws too
  std::vector<std::vector<std::byte>> contributions;

  /// Messages of one sender, receiver and tag. As in MPI, the n-th receive posted gets the n-th message sent, whichever
  /// of the receives is tested first.
  struct Channel {
    std::map<int64_t, std::vector<std::byte>> messages;  ///< sent and not yet taken, by number
    int64_t sent = 0, posted = 0;
  };
  std::map<std::tuple<int, int, int>, Channel> mail;  ///< (from, to, tag)
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.size; }
  void barrier() override { meet(); }
  void sum(std::span<int64_t> values) override {
    combine(values, [](int64_t a, int64_t b) { return a + b; });
  }
  void max(std::span<int64_t> values) override {
    combine(values, [](int64_t a, int64_t b) { return std::max(a, b); });
  }
  void min(std::span<int64_t> values) override {
    combine(values, [](int64_t a, int64_t b) { return std::min(a, b); });
  }
  void assemble(std::span<double> values) override {
    combine(values, [](double a, double b) { return a != 0 ? a : b; });
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    const auto all = gather_all(bytes);
    if (all[root].size() != bytes.size()) throw internal_error("broadcast of unequal sizes");
    std::memcpy(bytes.data(), all[root].data(), bytes.size());
  }
  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override {
    {
      const std::lock_guard lock(group_.mutex);
      group_.contributions[rank_].assign(mine.begin(), mine.end());
    }
    meet();
    auto all = group_.contributions;  // nobody writes before the second meeting
    meet();
    return all;
  }
  std::unique_ptr<Transfer> send(std::span<const std::byte> bytes, int to, int tag) override {
    const std::lock_guard lock(group_.mutex);
    ThreadGroup::Channel& channel = group_.mail[{rank_, to, tag}];
    channel.messages[channel.sent++].assign(bytes.begin(), bytes.end());
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Transfer> receive(std::span<std::byte> bytes, int from, int tag) override {
    const std::lock_guard lock(group_.mutex);
    ThreadGroup::Channel& channel = group_.mail[{from, rank_, tag}];
    return std::make_unique<Received>(group_, channel, channel.posted++, bytes);
  }

 private:
  struct Sent : Transfer {
    bool test() override { return true; }
    void wait() override {}
  };
  struct Received : Transfer {
    Received(ThreadGroup& group, ThreadGroup::Channel& channel, int64_t number, std::span<std::byte> bytes)
        : group_(group), channel_(channel), number_(number), bytes_(bytes) {}
    bool test() override {
      const std::lock_guard lock(group_.mutex);
      if (group_.failed) throw system_error("another rank failed");
      const auto message = channel_.messages.find(number_);
      if (message == channel_.messages.end()) return false;
      if (message->second.size() != bytes_.size()) throw system_error("message of an unexpected size");
      std::memcpy(bytes_.data(), message->second.data(), bytes_.size());
      channel_.messages.erase(message);
      return true;
    }
    void wait() override {
      while (!test()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    ThreadGroup& group_;
    ThreadGroup::Channel& channel_;  // a map's elements stay where they are
    const int64_t number_;
    std::span<std::byte> bytes_;
  };

  void meet() {
    std::unique_lock lock(group_.mutex);
    const int64_t round = group_.round;
    if (++group_.arrived == group_.size) {
      group_.arrived = 0;
      ++group_.round;
      group_.changed.notify_all();
    }
    group_.changed.wait(lock, [&] { return group_.failed || group_.round != round; });
    if (group_.round == round) throw system_error("another rank failed");
  }

  template <typename T, typename Operation>
  void combine(std::span<T> values, Operation&& operation) {
    const auto all = gather_all(std::as_bytes(values));
    std::vector<T> total(values.size()), one(values.size());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].size() != values.size_bytes()) throw internal_error("collective call with unequal sizes");
      std::memcpy(one.data(), all[rank].data(), all[rank].size());
      for (size_t i = 0; i < total.size(); ++i) total[i] = rank == 0 ? one[i] : operation(total[i], one[i]);
    }
    std::copy(total.begin(), total.end(), values.begin());
  }

  ThreadGroup& group_;
  int rank_;
};

/// Runs body(communicator) on `ranks` threads; returns what each threw (null: nothing).
inline std::vector<std::exception_ptr> run_ranks_collecting(int ranks, const std::function<void(Communicator&)>& body) {
  ThreadGroup group(ranks);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(group, rank);
      try {
        body(communicator);
      } catch (...) {
        failures[rank] = std::current_exception();
        const std::lock_guard lock(group.mutex);
        group.failed = true;
        group.changed.notify_all();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return failures;
}

/// The same; rethrows the first failure.
inline void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  for (const auto& failure : run_ranks_collecting(ranks, body)) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace longhaul::testing
