// POSIX files: every return value checked, every error names the call and the path. The only place that calls open,
// write, fsync, rename. Durability follows reliability.md section 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace longhaul {

namespace fs = std::filesystem;

/// An open file descriptor. Errors are Error(kSystem) with path, call and errno text.
class File {
 public:
  static File open_read(const fs::path& path);
  static std::optional<File> open_if_present(const fs::path& path);  ///< open_read; nothing when there is no such file
  static File create(const fs::path& path);                          ///< O_CREAT | O_TRUNC
  static File create_exclusive(const fs::path& path);                ///< O_CREAT | O_EXCL
  static File open_append(const fs::path& path);                     ///< O_CREAT | O_APPEND
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();  ///< closes without checking; call close() where it matters

  void write(std::span<const std::byte> bytes);  ///< all of them; retries EINTR and short writes
  void write(std::string_view text);
  int64_t read(std::span<std::byte> bytes);                  ///< up to bytes.size(); 0 at the end
  void read_at(int64_t offset, std::span<std::byte> bytes);  ///< exactly bytes.size(), else Error "truncated"
  int64_t size() const;
  void sync();   ///< fsync; an error is final
  void close();  ///< checked
  int descriptor() const { return descriptor_; }
  const fs::path& path() const { return path_; }

 private:
  File(int descriptor, fs::path path) : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_ = -1;
  fs::path path_;
};

/// fsync of a directory, so that names created or renamed in it survive a power loss.
void sync_directory(const fs::path& directory);
/// mkdir -p with fsync of every directory that was created and of its parent.
void create_directories_durably(const fs::path& directory);
/// rename + fsync of the directory (both directories when they differ).
void rename_durably(const fs::path& from, const fs::path& to);
/// Writes `path`.tmp beside it, fsync, close, rename, fsync of the directory: readers see the old or the new content.
void write_file_durably(const fs::path& path, std::string_view content);
/// Makes an already closed file (written by HDF5, say) durable: open, fsync, close.
void sync_file(const fs::path& path);
std::string read_file(const fs::path& path);  ///< whole content
/// The same; nothing when there is no such file, in one step (exists-then-open could lose a race).
std::optional<std::string> read_file_if_present(const fs::path& path);

}  // namespace longhaul
