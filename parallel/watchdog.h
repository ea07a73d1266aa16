// Ends the job when it makes no progress, so that nothing hangs: a thread of each rank watches the main thread's
// heartbeat.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/comm/communicator.h"

namespace longhaul {

struct WatchdogOptions {
  double timeout_seconds = 600;  ///< without a beat, or without a sign of life from the neighbour rank; 0: no watch
  /// Is the main thread waiting for other ranks at the moment? A waiting rank lets the culprit speak first, for 2 s.
  std::function<bool()> waiting_for_peers = {};
  /// Has the process that started us gone? Then nobody is left to end the job. Default: the parent process changed;
  /// only asked in a group of several, because a shell may leave a single process behind on purpose.
  std::function<bool()> orphaned = {};
  /// Ends every rank of the job with a non-zero exit code after printing the message (World::abort); must not return in
  /// production. Default: prints it and calls _exit(1).
  std::function<void(const std::string& message)> terminate = {};
};

/// The heartbeat of one rank: main thread -> own watchdog thread -> watchdog of the next rank (a ring), so that a
/// stopped or vanished rank is named too. beat() and phases are cheap and called from the main thread. Every rank
/// should name the same phases with the same allowances, since the others wait for the slowest.
class Watchdog {
 public:
  /// Collective in spirit: every rank of `group` has one, with the same timeout. `group` must outlive it.
  Watchdog(Communicator& group, WatchdogOptions options);
  ~Watchdog();  ///< says goodbye to the next rank, so that an early end is no alarm
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The main thread has made progress; it now works on `step`.
  void beat(int64_t step);

  /// Names what the main thread does until the end of the scope ("forward", "save", ...); `allowance_seconds` more than
  /// the timeout are granted to it: a long first step, a slow save. Scopes nest; the inner one's name is shown.
  class Phase {
   public:
    Phase(Watchdog& watchdog, const std::string& name, double allowance_seconds = 0);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul
