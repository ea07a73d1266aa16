#include "parallel/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace longhaul {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kTag = 32767;
constexpr double kWaiterPatience = 2;  ///< seconds by which a waiting rank lets the culprit speak first
constexpr size_t kPhaseBytes = 40;

/// What a rank tells the next one, several times per timeout.
struct Sign {
  int64_t step = -1;
  int64_t goodbye = 0;  ///< this rank ends its watch: no further sign will come
  char phase[kPhaseBytes] = "";
};

void print_and_exit(const std::string& message) {
  std::fprintf(stderr, "longhaul: %s\n", message.c_str());
  std::fflush(stderr);
  ::_exit(1);
}

/// The signs between this rank and its neighbours in the ring. Used by the watchdog thread alone.
class Ring {
 public:
  explicit Ring(Communicator& group)
      : group_(group), previous_((group.rank() + group.size() - 1) % group.size()), heard_at_(Clock::now()) {}

  /// Sends our sign when the last one has left, takes what has come.
  void exchange(const Sign& own) {
    if (!sent_ || sent_->test()) {
      outgoing_ = own;
      sent_ = group_.send(std::as_bytes(std::span(&outgoing_, 1)), (group_.rank() + 1) % group_.size(), kTag);
    }
    while (!heard_.goodbye) {
      if (!incoming_) incoming_ = group_.receive(std::as_writable_bytes(std::span(&buffer_, 1)), previous_, kTag);
      if (!incoming_->test()) break;
      incoming_.reset();
      heard_ = buffer_;
      heard_at_ = Clock::now();
    }
  }
  double silence() const { return heard_.goodbye ? 0 : Seconds(Clock::now() - heard_at_).count(); }
  int previous() const { return previous_; }
  const Sign& heard() const { return heard_; }

 private:
  Communicator& group_;
  int previous_;
  Clock::time_point heard_at_;
  Sign outgoing_, buffer_, heard_;
  std::unique_ptr<Transfer> sent_, incoming_;
};

}  // namespace

struct Watchdog::State {
  State(Communicator& group_in, WatchdogOptions options_in)
      : group(group_in), options(std::move(options_in)), last_beat(Clock::now()) {
    if (!options.terminate) options.terminate = print_and_exit;
    if (!options.orphaned) {
      options.orphaned = [parent = ::getppid(), several = group.size() > 1] {
        return several && ::getppid() != parent;
      };
    }
    interval = std::clamp(options.timeout_seconds / 20, 0.01, 1.0);
    if (options.timeout_seconds > 0) thread = std::thread([this] { run(); });
  }

  struct NamedPhase {
    std::string name;
    double allowance;
  };

  std::string phase() const { return phases.empty() ? "between phases" : phases.back().name; }  ///< under mutex

  /// Under mutex.
  Sign sign(bool goodbye) const {
    Sign own;
    own.step = step;
    own.goodbye = goodbye ? 1 : 0;
    phase().copy(own.phase, kPhaseBytes - 1);
    return own;
  }

  /// Why the job must end, if it must. Under mutex.
  std::optional<std::string> complaint(const Ring& ring) const {
    if (options.orphaned()) {
      return fmt::format("the process that started this rank is gone (rank {}, step {}, phase '{}'): ending",
                         group.rank(), step, phase());
    }
    double patience = options.timeout_seconds;
    for (const NamedPhase& entry : phases) patience += entry.allowance;
    if (group.size() > 1 && ring.silence() > options.timeout_seconds) {
      return fmt::format("hang: no sign of life from rank {} for {:.0f} s; it was last at step {} in phase '{}'",
                         ring.previous(), ring.silence(), ring.heard().step, ring.heard().phase);
    }
    const bool waits = options.waiting_for_peers && options.waiting_for_peers();
    const double still = Seconds(Clock::now() - last_beat).count();
    if (still <= patience + (waits ? kWaiterPatience : 0)) return std::nullopt;
    return fmt::format("hang: rank {} has made no progress for {:.0f} s at step {} in phase '{}'{}", group.rank(),
                       still, step, phase(), waits ? ", waiting for other ranks" : "");
  }

  void run() {
    std::optional<std::string> message;
    try {
      Ring ring(group);
      while (!message) {
        Sign own;
        {
          const std::lock_guard lock(mutex);
          own = sign(stop);
        }
        if (group.size() > 1) ring.exchange(own);
        if (own.goodbye) return;
        std::unique_lock lock(mutex);
        message = complaint(ring);
        if (!message) changed.wait_for(lock, Seconds(interval), [this] { return stop; });
      }
    } catch (const std::exception& error) {
      message = fmt::format("watchdog of rank {}: {}", group.rank(), error.what());
    }
    options.terminate(*message);
  }

  void progress() { last_beat = Clock::now(); }  ///< under mutex

  Communicator& group;
  WatchdogOptions options;
  double interval;
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;
  Clock::time_point last_beat;
  int64_t step = -1;
  std::vector<NamedPhase> phases;
  std::thread thread;
};

Watchdog::Watchdog(Communicator& group, WatchdogOptions options)
    : state_(std::make_unique<State>(group, std::move(options))) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

void Watchdog::beat(int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->step = step;
  state_->progress();
}

Watchdog::Phase::Phase(Watchdog& watchdog, const std::string& name, double allowance_seconds) : watchdog_(watchdog) {
  const std::lock_guard lock(watchdog_.state_->mutex);
  watchdog_.state_->phases.push_back({name, allowance_seconds});
  watchdog_.state_->progress();
}

Watchdog::Phase::~Phase() {
  const std::lock_guard lock(watchdog_.state_->mutex);
  watchdog_.state_->phases.pop_back();
  watchdog_.state_->progress();
}

}  // namespace longhaul
