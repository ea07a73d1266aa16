// The lock of a run directory: a file created by link(2), which is atomic on local and network file systems. It needs
// no flock, names its holder, and is taken over only from a holder that is provably dead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace longhaul {

/// Who holds a lock; the content of the lock file.
struct LockHolder {
  std::string nonce;  ///< unique per acquisition
  std::string host, boot_id, process_namespace;
  int64_t process = 0;
  int64_t process_start = 0;  ///< clock ticks after boot (/proc/PID/stat)
  std::string slurm_job;      ///< empty outside Slurm
  int64_t slurm_restart = 0;  ///< SLURM_RESTART_COUNT

  static LockHolder current(std::string nonce);  ///< this process
  std::string encode() const;
  static LockHolder decode(const std::string& text, const std::filesystem::path& path);
  std::string text() const;  ///< "host h, process 12, Slurm job 34"
};

/// Dead beyond doubt: same host, boot and process namespace, and no such process (or another one with its number, or a
/// zombie); or an earlier incarnation of the Slurm job that asks; or a Slurm job that squeue no longer knows.
bool provably_dead(const LockHolder& holder, const LockHolder& self);

class RunLock {
 public:
  /// Takes directory/lock. user_error naming the holder when another job has it. Of any number of simultaneous callers
  /// exactly one succeeds, also when they all find a stale lock.
  explicit RunLock(const std::filesystem::path& directory);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();  ///< removes the lock if it is still ours

  const LockHolder& self() const { return self_; }
  const std::string& recovered_from() const { return recovered_from_; }  ///< the dead holder's text(), or empty

 private:
  void take(const std::filesystem::path& name);
  void remove_leftovers(bool of_dead_processes);

  std::filesystem::path directory_;
  LockHolder self_;
  std::string recovered_from_;
};

}  // namespace longhaul
