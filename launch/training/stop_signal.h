// SIGTERM, SIGINT and SIGUSR2 ask a run to stop with a checkpoint. (SIGUSR1 belongs to NCCL.)
#pragma once

namespace longhaul {

/// Installs the handlers for the rest of the process: a second signal, also one during the last save or while the ranks
/// leave, changes nothing. A handler only sets a flag, which stays set for every run of the process.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const { return number() != 0; }
  int number() const;  ///< of the first signal; 0: none yet
};

}  // namespace longhaul
