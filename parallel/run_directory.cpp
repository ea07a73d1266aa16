#include "parallel/run_directory.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/comm/agreement.h"
#include "core/io/file.h"
#include "kernels/error.h"
#include "parallel/random_id.h"
#include "parallel/run_lock.h"
#include "parallel/text_exchange.h"

namespace longhaul {

namespace {

using nlohmann::json;

constexpr const char* kIdentityFile = "run.json";
constexpr int64_t kFormatVersion = 1;

std::string read_run_id(const fs::path& path) {
  try {
    const json document = json::parse(read_file(path));
    const auto version = document.at("format_version").get<int64_t>();
    if (version != kFormatVersion) {
      throw user_error("{}: format version {}, this program reads version {}", path.string(), version, kFormatVersion);
    }
    return document.at("run_id").get<std::string>();
  } catch (const json::exception& error) {
    throw user_error("{}: damaged run identity: {}", path.string(), error.what());
  }
}

std::string read_or_make_run_id(const fs::path& directory) {
  const fs::path path = directory / kIdentityFile;
  if (fs::exists(path)) return read_run_id(path);
  const std::string id = random_hex(16);
  write_file_durably(path, json{{"format_version", kFormatVersion}, {"run_id", id}}.dump() + "\n");
  return id;
}

}  // namespace

RunDirectory::RunDirectory() = default;
RunDirectory::RunDirectory(RunDirectory&&) noexcept = default;
RunDirectory& RunDirectory::operator=(RunDirectory&&) noexcept = default;
RunDirectory::~RunDirectory() = default;

RunDirectory RunDirectory::acquire(Communicator& group, const fs::path& path) {
  RunDirectory run;
  run.path_ = path;
  agree(group, "opening the run directory", [&] {
    if (!group.is_root()) return;
    create_directories_durably(path);
    run.lock_ = std::make_unique<RunLock>(path);
    create_directories_durably(run.checkpoints());
    run.run_id_ = read_or_make_run_id(path);
    run.session_ = run.lock_->self().nonce;
    const std::string& dead = run.lock_->recovered_from();
    if (!dead.empty())
      run.notice_ = fmt::format("{}: took over the lock of a job that is gone ({})", path.string(), dead);
  });
  run.run_id_ = text_from_root(group, run.run_id_);
  run.session_ = text_from_root(group, run.session_);
  run.notice_ = text_from_root(group, run.notice_);
  return run;
}

RunDirectory RunDirectory::open_unlocked(const fs::path& path) {
  if (!is_run_directory(path)) throw user_error("{}: not a run directory, {} is missing", path.string(), kIdentityFile);
  RunDirectory run;
  run.path_ = path;
  run.run_id_ = read_run_id(path / kIdentityFile);
  return run;
}

bool RunDirectory::is_run_directory(const fs::path& path) { return fs::is_regular_file(path / kIdentityFile); }

}  // namespace longhaul
