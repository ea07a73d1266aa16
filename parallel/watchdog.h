// Ends the job when it makes no progress, so that nothing hangs: a thread of each rank watches the main thread's
// heartbeat.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace longhaul {

struct WatchdogOptions {
  int rank = 0;
  int size = 1;
  double timeout_seconds = 600;  ///< without a beat; 0 turns the watch off
  /// Is the main thread waiting for other ranks at the moment? A waiting rank gives the culprit 2 s to speak first.
  std::function<bool()> waiting_for_peers;
  /// Has the process that started us gone? Then nobody is left to end the job. Default: the parent process changed
  /// (only watched when size > 1, because a shell may leave a single process behind on purpose).
  std::function<bool()> orphaned;
  /// Ends every rank of the job with a non-zero exit code after printing the message; must not return. Default: prints
  /// it and calls _exit(1).
  std::function<void(const std::string& message)> terminate;
};

/// The heartbeat of one rank. beat() and phases are cheap and called from the main thread.
class Watchdog {
 public:
  explicit Watchdog(WatchdogOptions options);
  ~Watchdog();
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
