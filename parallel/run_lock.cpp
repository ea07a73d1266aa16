#include "parallel/run_lock.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "core/io/file.h"
#include "kernels/error.h"
#include "parallel/random_id.h"

namespace longhaul {

namespace {

using nlohmann::json;

std::string first_line(const char* path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct ProcessState {
  char state = '?';
  int64_t start = 0;  ///< clock ticks after boot
};

/// Fields 3 and 22 of /proc/PID/stat, counted after the command name in parentheses, which may hold anything.
ProcessState process_state(int64_t process) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", process).c_str());
  ProcessState result;
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return result;
  std::istringstream words(line.substr(end + 1));
  words >> result.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) words >> skipped;
  words >> result.start;
  return result;
}

bool process_is_dead(const LockHolder& holder) {
  if (::kill(static_cast<pid_t>(holder.process), 0) != 0 && errno == ESRCH) return true;
  const ProcessState now = process_state(holder.process);
  if (now.state == '?') return false;  // hidden or just gone: no proof
  const bool zombie = now.state == 'Z' || now.state == 'X';
  return zombie || now.start != holder.process_start;
}

/// Asks Slurm. True only when squeue answers that it does not know the job or that it has ended.
bool slurm_job_is_gone(const std::string& job) {
  if (job.empty() ||
      !std::all_of(job.begin(), job.end(), [](unsigned char c) { return std::isdigit(c) || c == '_'; })) {
    return false;
  }
  const std::string command = "timeout 10 squeue --noheader --format=%T --states=all --jobs=" + job + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  std::array<char, 256> buffer{};
  const size_t count = std::fread(buffer.data(), 1, buffer.size() - 1, pipe);
  const int status = ::pclose(pipe);
  const std::string answer(buffer.data(), count);
  if (answer.find("Invalid job id") != std::string::npos) return true;
  if (status != 0) return false;
  for (const char* ended : {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}) {
    if (answer.starts_with(ended)) return true;
  }
  return answer.empty();
}

}  // namespace

LockHolder LockHolder::current(std::string nonce) {
  LockHolder holder;
  holder.nonce = std::move(nonce);
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0)
    throw system_error("gethostname failed: {}", std::strerror(errno));
  holder.host = host.data();
  holder.boot_id = first_line("/proc/sys/kernel/random/boot_id");
  std::error_code error;
  holder.process_namespace = fs::read_symlink("/proc/self/ns/pid", error).string();
  holder.process = ::getpid();
  holder.process_start = process_state(holder.process).start;
  holder.slurm_job = environment("SLURM_JOB_ID");
  holder.slurm_restart = std::strtoll(environment("SLURM_RESTART_COUNT").c_str(), nullptr, 10);
  return holder;
}

std::string LockHolder::encode() const {
  const json document = {{"nonce", nonce},         {"host", host},
                         {"boot_id", boot_id},     {"process_namespace", process_namespace},
                         {"process", process},     {"process_start", process_start},
                         {"slurm_job", slurm_job}, {"slurm_restart", slurm_restart}};
  return document.dump(1) + "\n";
}

LockHolder LockHolder::decode(const std::string& text, const fs::path& path) {
  try {
    const json document = json::parse(text);
    LockHolder holder;
    holder.nonce = document.at("nonce").get<std::string>();
    holder.host = document.at("host").get<std::string>();
    holder.boot_id = document.at("boot_id").get<std::string>();
    holder.process_namespace = document.at("process_namespace").get<std::string>();
    holder.process = document.at("process").get<int64_t>();
    holder.process_start = document.at("process_start").get<int64_t>();
    holder.slurm_job = document.at("slurm_job").get<std::string>();
    holder.slurm_restart = document.at("slurm_restart").get<int64_t>();
    return holder;
  } catch (const json::exception&) {
    throw user_error("{}: the lock does not say who holds it; delete it if no job uses this run directory",
                     path.string());
  }
}

std::string LockHolder::text() const {
  const std::string place = fmt::format("host {}, process {}", host, process);
  return slurm_job.empty() ? place : fmt::format("{}, Slurm job {}", place, slurm_job);
}

bool provably_dead(const LockHolder& holder, const LockHolder& self) {
  const bool process_visible = !holder.boot_id.empty() && holder.host == self.host && holder.boot_id == self.boot_id &&
                               holder.process_namespace == self.process_namespace;
  if (process_visible) return process_is_dead(holder);
  if (holder.slurm_job.empty()) return false;
  if (holder.slurm_job == self.slurm_job) return holder.slurm_restart < self.slurm_restart;
  return slurm_job_is_gone(holder.slurm_job);
}

namespace {

/// The holder written in `name`; empty nonce when the file has just gone.
LockHolder read_holder(const fs::path& name) {
  const std::optional<std::string> text = read_file_if_present(name);
  return text ? LockHolder::decode(*text, name) : LockHolder{};
}

/// True when `name` was created as another name of `own`; false when it exists. All-or-nothing on every file system.
bool link_exclusive(const fs::path& own, const fs::path& name) {
  if (::link(own.c_str(), name.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  throw system_error("{}: link failed: {}; the run directory must lie on a file system with hard links", name.string(),
                     std::strerror(errno));
}

}  // namespace

// A dead holder's file may be removed only by the process that holds the right to do so, the file lock.recovery.<its
// nonce>, which is itself such a lock. Whoever gets that right checks again that the file is still the dead holder's:
// only the owner of the right could have removed it, so check and removal cannot be torn apart by another starter. The
// one exception: whoever holds the lock itself clears rights that dead processes left (remove_leftovers), and may be
// faster than a starter about to recover such a right. Those rights are over a file that is gone, so nothing is lost.
void RunLock::take(const fs::path& name) {
  const fs::path own = directory_ / ("lock.own." + self_.nonce);
  while (!link_exclusive(own, name)) {
    const LockHolder holder = read_holder(name);
    if (holder.nonce.empty()) continue;  // just released
    if (holder.nonce == self_.nonce) return;
    if (!provably_dead(holder, self_)) {
      throw user_error(
          "{}: the run directory is in use by {}; wait for that job, use another directory, or, if it is "
          "surely gone, delete {}",
          directory_.string(), holder.text(), name.string());
    }
    take(directory_ / ("lock.recovery." + holder.nonce));
    if (read_holder(name).nonce == holder.nonce) {
      std::error_code error;
      const bool removed = fs::remove(name, error);
      if (error) throw system_error("{}: removing failed: {}", name.string(), error.message());
      if (removed) recovered_from_ = holder.text();
    }
  }
}

/// Removes the auxiliary files of this process and, when it holds the lock, of dead ones: their rights are over files
/// that are gone.
void RunLock::remove_leftovers(bool of_dead_processes) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator at(directory_, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with("lock.own.") || name.starts_with("lock.recovery.")) leftovers.push_back(at->path());
  }
  for (const fs::path& path : leftovers) {
    try {
      const LockHolder holder = read_holder(path);
      std::error_code ignored;  // somebody else may have been faster
      const bool dead = of_dead_processes && provably_dead(holder, self_);
      if (holder.nonce == self_.nonce || dead) fs::remove(path, ignored);
    } catch (const Error&) {
      continue;  // unreadable: leave it for a person to look at
    }
  }
}

RunLock::RunLock(const fs::path& directory) : directory_(directory), self_(LockHolder::current(random_hex(8))) {
  const fs::path own = directory_ / ("lock.own." + self_.nonce);
  File file = File::create_exclusive(own);
  file.write(self_.encode());
  file.sync();
  file.close();
  try {
    take(directory_ / "lock");
  } catch (...) {
    remove_leftovers(false);
    throw;
  }
  remove_leftovers(true);
  sync_directory(directory_);
}

RunLock::~RunLock() {
  try {
    const fs::path name = directory_ / "lock";
    std::error_code ignored;  // nobody is there to hear of it; the next starter sees that the holder is dead
    if (read_holder(name).nonce == self_.nonce) fs::remove(name, ignored);
  } catch (const Error&) {
    return;  // deleted or replaced by a person: nothing of ours to release
  }
}

}  // namespace longhaul
