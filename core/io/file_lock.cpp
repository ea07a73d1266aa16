#include "core/io/file_lock.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "core/io/file.h"

namespace longhaul {

namespace {

/// Lines of /proc/locks read "1: FLOCK  ADVISORY  WRITE 4711 08:01:123456 0 EOF"; the inode follows the last colon.
/// Device numbers are not compared, since overlay file systems show others than stat does.
bool kernel_lists_writer(ino_t inode) {
  std::ifstream locks("/proc/locks");
  std::string line;
  while (std::getline(locks, line)) {
    std::istringstream words(line);
    std::string number, kind, strength, mode, process, device;
    if (!(words >> number >> kind >> strength >> mode >> process >> device)) continue;
    if (mode == "WRITE" && device.substr(device.rfind(':') + 1) == std::to_string(inode)) return true;
  }
  return false;
}

}  // namespace

bool locked_for_writing(const std::filesystem::path& path) {
  const File file = File::open_read(path);
  if (::flock(file.descriptor(), LOCK_SH | LOCK_NB) == 0) {
    ::flock(file.descriptor(), LOCK_UN);
    return false;
  }
  if (errno != EWOULDBLOCK) return false;
  struct stat status {};
  return ::fstat(file.descriptor(), &status) == 0 && kernel_lists_writer(status.st_ino);
}

}  // namespace longhaul
