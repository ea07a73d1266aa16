// A run directory: its identity (run.json, a random id made once) and its lock (one job at a time).
//   RUN/run.json  RUN/lock  RUN/checkpoints/
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "core/comm/communicator.h"

namespace longhaul {

class RunLock;

/// The directory of the run this job owns. Rank 0 holds the lock until destruction.
class RunDirectory {
 public:
  /// Collective. Creates the directory when it is missing, takes the lock, reads or makes run.json, and tells all
  /// ranks. Every rank throws when rank 0 cannot: user_error naming the holder (host, process, Slurm job) when another
  /// job owns the directory, system_error when it cannot be written.
  static RunDirectory acquire(Communicator& group, const std::filesystem::path& path);
  /// For reading only (hash, inspect, export): no lock. user_error when run.json is missing or damaged.
  static RunDirectory open_unlocked(const std::filesystem::path& path);
  /// True when `path` holds a run.json.
  static bool is_run_directory(const std::filesystem::path& path);

  RunDirectory(RunDirectory&&) noexcept;
  RunDirectory& operator=(RunDirectory&&) noexcept;
  ~RunDirectory();  ///< releases the lock

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  const std::string& run_id() const { return run_id_; }    ///< 32 hexadecimal digits, for the life of the directory
  const std::string& session() const { return session_; }  ///< 16 hexadecimal digits, new for every acquire
  const std::string& notice() const { return notice_; }    ///< one line when a stale lock was recovered, else empty

 private:
  RunDirectory();
  std::filesystem::path path_;
  std::string run_id_, session_, notice_;
  std::unique_ptr<RunLock> lock_;
};

}  // namespace longhaul
