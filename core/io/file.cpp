#include "core/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/error.h"

namespace longhaul {

namespace {

// Linux moves at most 0x7ffff000 bytes per call; a smaller piece keeps every count far from 2^31.
constexpr size_t kLargestPiece = size_t{1} << 30;

Error failed(const char* call, const fs::path& path, int error) {
  return system_error("{}: {} failed: {}", path.string(), call, std::strerror(error));
}

/// Repeats a call that was interrupted by a signal.
template <typename Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

int open_checked(const fs::path& path, int flags) {
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (descriptor < 0) throw failed("open", path, errno);
  return descriptor;
}

void sync_checked(int descriptor, const fs::path& path) {
  // Only an interrupted call is repeated: after any other error the kernel may have dropped the dirty pages.
  if (uninterrupted([&] { return ::fsync(descriptor); }) != 0) throw failed("fsync", path, errno);
}

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

File File::open_read(const fs::path& path) {
  File file(open_checked(path, O_RDONLY), path);
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0) throw failed("fstat", path, errno);
  if (S_ISDIR(status.st_mode)) throw system_error("{}: open failed: is a directory, expected a file", path.string());
  return file;
}

std::optional<File> File::open_if_present(const fs::path& path) {
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (descriptor >= 0) return File(descriptor, path);
  if (errno == ENOENT) return std::nullopt;
  throw failed("open", path, errno);
}

File File::create(const fs::path& path) { return File(open_checked(path, O_WRONLY | O_CREAT | O_TRUNC), path); }

File File::create_exclusive(const fs::path& path) {
  return File(open_checked(path, O_WRONLY | O_CREAT | O_EXCL), path);
}

File File::open_append(const fs::path& path) { return File(open_checked(path, O_WRONLY | O_CREAT | O_APPEND), path); }

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kLargestPiece);
    const ssize_t written = uninterrupted([&] { return ::write(descriptor_, bytes.data(), piece); });
    if (written < 0) throw failed("write", path_, errno);
    if (written == 0) throw system_error("{}: write failed: the device accepted no bytes", path_.string());
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void File::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

int64_t File::read(std::span<std::byte> bytes) {
  int64_t total = 0;
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kLargestPiece);
    const ssize_t count = uninterrupted([&] { return ::read(descriptor_, bytes.data(), piece); });
    if (count < 0) throw failed("read", path_, errno);
    if (count == 0) break;
    total += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return total;
}

void File::read_at(int64_t offset, std::span<std::byte> bytes) {
  const size_t wanted = bytes.size();
  const int64_t begin = offset;
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kLargestPiece);
    const ssize_t count = uninterrupted([&] { return ::pread(descriptor_, bytes.data(), piece, offset); });
    if (count < 0) throw failed("pread", path_, errno);
    if (count == 0) {
      throw system_error("{}: truncated: expected {} bytes at offset {}, the file ends at {}", path_.string(), wanted,
                         begin, offset);
    }
    offset += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

int64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) throw failed("fstat", path_, errno);
  return status.st_size;
}

void File::sync() { sync_checked(descriptor_, path_); }

void File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor < 0) return;
  // Linux has released the descriptor even when close reports an interruption; calling again could close another file.
  if (::close(descriptor) != 0 && errno != EINTR) throw failed("close", path_, errno);
}

void sync_directory(const fs::path& directory) {
  const int descriptor = open_checked(directory, O_RDONLY | O_DIRECTORY);
  const int result = uninterrupted([&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  if (result != 0 && error != EINVAL)
    throw failed("fsync", directory, error);  // EINVAL: file system without the notion
}

void create_directories_durably(const fs::path& directory) {
  std::vector<fs::path> missing;  // deepest first
  for (fs::path at = fs::absolute(directory).lexically_normal(); !at.empty() && at != at.root_path();
       at = at.parent_path()) {
    if (at.filename().empty()) continue;  // trailing slash
    struct stat status {};
    if (::stat(at.c_str(), &status) == 0) {
      if (!S_ISDIR(status.st_mode)) throw system_error("{}: mkdir failed: a file of that name exists", at.string());
      break;
    }
    if (errno != ENOENT && errno != ENOTDIR) throw failed("stat", at, errno);
    missing.push_back(at);
  }
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    if (uninterrupted([&] { return ::mkdir(at->c_str(), 0777); }) != 0 && errno != EEXIST) {
      throw failed("mkdir", *at, errno);
    }
    sync_directory(*at);
    sync_directory(parent_of(*at));
  }
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (uninterrupted([&] { return std::rename(from.c_str(), to.c_str()); }) != 0) {
    const int error = errno;
    throw system_error("{}: rename to {} failed: {}", from.string(), to.string(), std::strerror(error));
  }
  sync_directory(parent_of(to));
  if (parent_of(from) != parent_of(to)) sync_directory(parent_of(from));
}

void write_file_durably(const fs::path& path, std::string_view content) {
  fs::path temporary = path;
  temporary += ".tmp";
  try {
    File file = File::create(temporary);
    file.write(content);
    file.sync();
    file.close();
    rename_durably(temporary, path);
  } catch (const Error&) {
    ::unlink(temporary.c_str());  // best effort: the error that is already on its way matters more
    throw;
  }
}

void sync_file(const fs::path& path) {
  File file = File::open_read(path);
  file.sync();
  file.close();
}

namespace {

std::string rest_of(File& file) {
  std::string content;
  std::vector<std::byte> buffer(size_t{1} << 16);
  while (const int64_t count = file.read(buffer)) {
    content.append(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(count));
  }
  return content;
}

}  // namespace

std::string read_file(const fs::path& path) {
  File file = File::open_read(path);
  return rest_of(file);
}

std::optional<std::string> read_file_if_present(const fs::path& path) {
  std::optional<File> file = File::open_if_present(path);
  if (!file) return std::nullopt;
  return rest_of(*file);
}

}  // namespace longhaul
