// LD_PRELOAD library that numbers the file-changing system calls below one directory and makes one of them fail.
//   FAULT_PREFIX  directory; calls on other paths pass through and are not counted
//   FAULT_CALL    number of the call to hit, from 1; 0 or unset: none
//   FAULT_MODE    die_before | die_after | short | slow | EIO | EINTR (that call only) | ENOSPC | EDQUOT (from it on)
//   FAULT_FLOCK   error number with which every flock fails, as on file systems without locks
//   FAULT_LOG     file to which every counted call is appended: one line per call, and the bytes of writes after it
// Counted: open for writing, write, pwrite, ftruncate, fsync, close of such files, fsync of directories, rename, link, unlink,
// mkdir, rmdir.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { kDescriptors = 4096, kSlowMicroseconds = 200000 };

static char* watched[kDescriptors];  // path of an open file below the prefix
static long counted = 0;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const char* setting(const char* name) {
  const char* value = getenv(name);
  return value == NULL ? "" : value;
}

static int below_prefix(const char* path) {
  const char* prefix = setting("FAULT_PREFIX");
  return *prefix != '\0' && path != NULL && strncmp(path, prefix, strlen(prefix)) == 0;
}

// Bypasses the interposed functions.
static void log_bytes(const void* bytes, size_t count) {
  const char* log = setting("FAULT_LOG");
  if (*log == '\0') return;
  const long descriptor = syscall(SYS_open, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (descriptor < 0) abort();
  const char* at = bytes;
  while (count > 0) {
    const long written = syscall(SYS_write, (int)descriptor, at, count);
    if (written <= 0) abort();
    at += written;
    count -= (size_t)written;
  }
  syscall(SYS_close, (int)descriptor);
}

static void log_call(const char* call, const char* first, const char* second, long number, const void* bytes, size_t count) {
  char line[8192];
  const int length = snprintf(line, sizeof line, "%s\t%s\t%s\t%ld\t%zu\n", call, first, second == NULL ? "" : second, number,
                              bytes == NULL ? 0 : count);
  log_bytes(line, (size_t)length);
  if (bytes != NULL) log_bytes(bytes, count);
}

struct fault {
  int hit;       // this call is the chosen one, or a later one of a lasting fault
  int error;     // errno to return, or 0
  int shorten;   // write half
  int die_after;
};

// Counts the call and says what is to happen to it. `can_fill` : needs space on the disk.
static struct fault next_call(int can_fill) {
  struct fault fault = {0, 0, 0, 0};
  pthread_mutex_lock(&mutex);
  const long number = ++counted;
  pthread_mutex_unlock(&mutex);
  const long chosen = atol(setting("FAULT_CALL"));
  const char* mode = setting("FAULT_MODE");
  if (chosen == 0 || number < chosen) return fault;
  const int lasting = can_fill && (strcmp(mode, "ENOSPC") == 0 || strcmp(mode, "EDQUOT") == 0);
  if (number > chosen && !lasting) return fault;
  fault.hit = 1;
  if (strcmp(mode, "die_before") == 0) kill(getpid(), SIGKILL);
  if (strcmp(mode, "die_after") == 0) fault.die_after = 1;
  if (strcmp(mode, "short") == 0) fault.shorten = 1;
  if (strcmp(mode, "slow") == 0) usleep(kSlowMicroseconds);
  if (strcmp(mode, "EIO") == 0) fault.error = EIO;
  if (strcmp(mode, "EINTR") == 0) fault.error = EINTR;
  if (strcmp(mode, "ENOSPC") == 0) fault.error = ENOSPC;
  if (strcmp(mode, "EDQUOT") == 0) fault.error = EDQUOT;
  return fault;
}

static long finish(struct fault fault, long result) {
  if (fault.die_after) kill(getpid(), SIGKILL);
  return result;
}

static const char* watched_path(int descriptor) {
  return descriptor >= 0 && descriptor < kDescriptors ? watched[descriptor] : NULL;
}

#define REFUSE(fault)            \
  do {                           \
    if ((fault).error != 0) {    \
      errno = (fault).error;     \
      return -1;                 \
    }                            \
  } while (0)

static int open_watched(const char* path, int flags, mode_t mode) {
  const int writes = (flags & O_ACCMODE) != O_RDONLY;
  const int directory = (flags & O_DIRECTORY) != 0;
  const int counts = below_prefix(path) && writes;
  struct fault fault = {0, 0, 0, 0};
  if (counts) {
    fault = next_call(1);
    REFUSE(fault);
  }
  const int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  if (descriptor >= 0 && descriptor < kDescriptors && below_prefix(path) && (writes || directory || flags == O_CLOEXEC)) {
    free(watched[descriptor]);
    watched[descriptor] = strdup(path);
  }
  if (counts && descriptor >= 0) log_call("open", path, NULL, flags & O_TRUNC ? 1 : 0, NULL, 0);
  return (int)finish(fault, descriptor);
}

#define OPEN_BODY                          \
  mode_t mode = 0;                         \
  if (flags & O_CREAT) {                   \
    va_list arguments;                     \
    va_start(arguments, flags);            \
    mode = (mode_t)va_arg(arguments, int); \
    va_end(arguments);                     \
  }                                        \
  return open_watched(path, flags, mode);

int open(const char* path, int flags, ...) { OPEN_BODY }
int open64(const char* path, int flags, ...) { OPEN_BODY }

static ssize_t write_watched(int descriptor, const void* bytes, size_t count, off_t offset, int positioned) {
  const char* path = watched_path(descriptor);
  struct fault fault = {0, 0, 0, 0};
  if (path != NULL) {
    fault = next_call(1);
    REFUSE(fault);
    if (fault.shorten && count > 1) count /= 2;
  }
  const long result = positioned ? syscall(SYS_pwrite64, descriptor, bytes, count, offset)
                                 : syscall(SYS_write, descriptor, bytes, count);
  if (path != NULL && result > 0) log_call("write", path, NULL, positioned ? (long)offset : -1, bytes, (size_t)result);
  return finish(fault, result);
}

ssize_t write(int descriptor, const void* bytes, size_t count) { return write_watched(descriptor, bytes, count, 0, 0); }
ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  return write_watched(descriptor, bytes, count, offset, 1);
}
ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t offset) {
  return write_watched(descriptor, bytes, count, offset, 1);
}

static int truncate_watched(int descriptor, off_t length) {
  const char* path = watched_path(descriptor);
  struct fault fault = {0, 0, 0, 0};
  if (path != NULL) {
    fault = next_call(1);
    REFUSE(fault);
  }
  const long result = syscall(SYS_ftruncate, descriptor, length);
  if (path != NULL && result == 0) log_call("truncate", path, NULL, (long)length, NULL, 0);
  return (int)finish(fault, result);
}
int ftruncate(int descriptor, off_t length) { return truncate_watched(descriptor, length); }
int ftruncate64(int descriptor, off64_t length) { return truncate_watched(descriptor, length); }

int fsync(int descriptor) {
  const char* path = watched_path(descriptor);
  struct fault fault = {0, 0, 0, 0};
  if (path != NULL) {
    fault = next_call(1);
    REFUSE(fault);
  }
  const long result = syscall(SYS_fsync, descriptor);
  if (path != NULL && result == 0) log_call("fsync", path, NULL, 0, NULL, 0);
  return (int)finish(fault, result);
}

int close(int descriptor) {
  struct fault fault = {0, 0, 0, 0};
  if (watched_path(descriptor) != NULL) {
    fault = next_call(1);
    log_call("close", watched[descriptor], NULL, 0, NULL, 0);
    free(watched[descriptor]);
    watched[descriptor] = NULL;
  }
  const long result = syscall(SYS_close, descriptor);  // an error of close still releases the descriptor
  REFUSE(fault);
  return (int)finish(fault, result);
}

int rename(const char* from, const char* to) {
  struct fault fault = {0, 0, 0, 0};
  if (below_prefix(from)) {
    fault = next_call(1);
    REFUSE(fault);
  }
  const long result = syscall(SYS_rename, from, to);
  if (below_prefix(from) && result == 0) log_call("rename", from, to, 0, NULL, 0);
  return (int)finish(fault, result);
}

int link(const char* from, const char* to) {
  struct fault fault = {0, 0, 0, 0};
  if (below_prefix(from)) {
    fault = next_call(1);
    REFUSE(fault);
  }
  const long result = syscall(SYS_link, from, to);
  if (below_prefix(from) && result == 0) log_call("link", from, to, 0, NULL, 0);
  return (int)finish(fault, result);
}

int flock(int descriptor, int operation) {
  const int error = atoi(setting("FAULT_FLOCK"));
  if (error == 0) return (int)syscall(SYS_flock, descriptor, operation);
  errno = error;
  return -1;
}

int mkdir(const char* path, mode_t mode) {
  struct fault fault = {0, 0, 0, 0};
  if (below_prefix(path)) {
    fault = next_call(1);
    REFUSE(fault);
  }
  const long result = syscall(SYS_mkdir, path, mode);
  if (below_prefix(path) && result == 0) log_call("mkdir", path, NULL, 0, NULL, 0);
  return (int)finish(fault, result);
}

int unlink(const char* path) {
  struct fault fault = {0, 0, 0, 0};
  if (below_prefix(path)) {
    fault = next_call(0);
    REFUSE(fault);
  }
  const long result = syscall(SYS_unlink, path);
  if (below_prefix(path) && result == 0) log_call("unlink", path, NULL, 0, NULL, 0);
  return (int)finish(fault, result);
}

// std::filesystem::remove_all deletes relative to open directories.
int unlinkat(int directory, const char* name, int flags) {
  char path[4096], link_name[64];
  struct fault fault = {0, 0, 0, 0};
  ssize_t length = 0;
  if (name[0] != '/' && directory != AT_FDCWD) {
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", directory);
    length = readlink(link_name, path, sizeof path - 2 - strlen(name));
    if (length < 0) length = 0;
    path[length++] = '/';
  }
  strcpy(path + length, name);
  const int counts = below_prefix(path);
  if (counts) {
    fault = next_call(0);
    REFUSE(fault);
  }
  const long result = syscall(SYS_unlinkat, directory, name, flags);
  if (counts && result == 0) log_call(flags & AT_REMOVEDIR ? "rmdir" : "unlink", path, NULL, 0, NULL, 0);
  return (int)finish(fault, result);
}

int rmdir(const char* path) {
  struct fault fault = {0, 0, 0, 0};
  if (below_prefix(path)) {
    fault = next_call(0);
    REFUSE(fault);
  }
  const long result = syscall(SYS_rmdir, path);
  if (below_prefix(path) && result == 0) log_call("rmdir", path, NULL, 0, NULL, 0);
  return (int)finish(fault, result);
}
