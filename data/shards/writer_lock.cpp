#include "data/shards/writer_lock.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "core/io/file_lock.h"
#include "data/shards/manifest.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr const char* kLockName = "writer.lock";

void refuse_finished(const fs::path& directory) {
  if (!fs::exists(directory / Manifest::kFileName)) return;
  throw user_error("{}: already holds a finished dataset; choose another directory or remove this one",
                   directory.string());
}

File take_lock(const fs::path& directory) {
  create_directories_durably(directory);
  WriterLock::require_free(directory);
  File file = File::open_append(directory / kLockName);
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
      locked_for_writing(directory / kLockName)) {
    throw user_error("{}: another `longhaul tokenize` is writing this directory; wait for it or choose another",
                     directory.string());
  }
  return file;
}

}  // namespace

WriterLock::WriterLock(const fs::path& directory) : file_(take_lock(directory)) {
  refuse_finished(directory);  // again: another writer may have ended between the first look and the lock
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename() != kLockName) fs::remove(entry.path());
  }
}

void WriterLock::require_free(const fs::path& directory) {
  if (!fs::exists(directory)) return;
  if (!fs::is_directory(directory))
    throw user_error("{}: found a file, expected a directory or nothing", directory.string());
  refuse_finished(directory);
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (!is_writer_file(name)) {
      throw user_error("{}: found the foreign file '{}', expected a new or empty directory", directory.string(), name);
    }
  }
}

void WriterLock::release() {
  fs::remove(file_.path());
  sync_directory(file_.path().parent_path());
}

bool WriterLock::is_writer_file(const std::string& name) {
  for (const char* whole : {"tokenizer.bin", "tokenizer.bin.tmp", "manifest.json.tmp", kLockName}) {
    if (name == whole) return true;
  }
  std::string_view rest = name;  // a shard: train-00012.h5 or train-00012.h5.tmp
  const auto take = [&rest](std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
  };
  if (!take("train-") && !take("valid-") && !take("test-")) return false;
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  rest.remove_prefix(digits);
  return digits > 0 && (rest == ".h5" || rest == ".h5.tmp");
}

}  // namespace longhaul
