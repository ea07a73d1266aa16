#include "core/io/file.h"

#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "core/io/checksum.h"
#include "core/io/file_lock.h"
#include "kernels/error.h"
#include "tests/core/io/temporary_directory.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(File, WritesAppendsAndReadsBack) {
  TemporaryDirectory directory;
  File file = File::create(directory / "a");
  file.write("abc");
  file.sync();
  file.close();
  File more = File::open_append(directory / "a");
  more.write("defg");
  more.close();

  EXPECT_EQ(read_file(directory / "a"), "abcdefg");
  File back = File::open_read(directory / "a");
  EXPECT_EQ(back.size(), 7);
  std::vector<std::byte> bytes(3);
  back.read_at(4, bytes);
  EXPECT_EQ(static_cast<char>(bytes[0]), 'e');
  EXPECT_EQ(static_cast<char>(bytes[2]), 'g');
}

TEST(File, OffsetsBeyond32BitsAreExact) {
  TemporaryDirectory directory;
  constexpr int64_t kSize = (int64_t{1} << 32) + 5;
  write_file_durably(directory / "sparse", "");
  fs::resize_file(directory / "sparse", kSize);  // takes no space
  File::open_append(directory / "sparse").write("end");
  File file = File::open_read(directory / "sparse");
  EXPECT_EQ(file.size(), kSize + 3);
  std::vector<std::byte> bytes(4);
  file.read_at(kSize - 1, bytes);
  EXPECT_EQ(static_cast<char>(bytes[0]), '\0');
  EXPECT_EQ(static_cast<char>(bytes[3]), 'd');
}

TEST(File, ErrorsNameCallAndPath) {
  TemporaryDirectory directory;
  const std::string missing = error_of([&] { File::open_read(directory / "missing"); });
  EXPECT_THAT(missing, HasSubstr("missing"));
  EXPECT_THAT(missing, HasSubstr("open failed"));
  EXPECT_THAT(error_of([&] { File::open_read(directory.path()); }), HasSubstr("is a directory"));

  write_file_durably(directory / "short", "12345");
  File file = File::open_read(directory / "short");
  std::vector<std::byte> bytes(3);
  EXPECT_THAT(error_of([&] { file.read_at(3, bytes); }), HasSubstr("truncated"));
  EXPECT_THAT(error_of([&] { File::create_exclusive(directory / "short"); }), HasSubstr("File exists"));
}

TEST(File, DurableWriteReplacesAndLeavesNoTemporaryFile) {
  TemporaryDirectory directory;
  write_file_durably(directory / "a", "old");
  write_file_durably(directory / "a", "new");
  EXPECT_EQ(read_file(directory / "a"), "new");
  EXPECT_FALSE(fs::exists(directory / "a.tmp"));
}

TEST(File, FullDiskLeavesTheOldContent) {
  TemporaryDirectory directory;
  write_file_durably(directory / "a", "old");
  const pid_t child = fork();
  if (child == 0) {  // the limit stands for a full disk: write gives EFBIG
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string error = error_of([&] { write_file_durably(directory / "a", std::string(5000, 'x')); });
    _exit(error.find("write failed: File too large") == std::string::npos ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_file(directory / "a"), "old");
  EXPECT_FALSE(fs::exists(directory / "a.tmp"));
}

TEST(File, CreatesNestedDirectories) {
  TemporaryDirectory directory;
  create_directories_durably(directory / "a/b/c/");
  EXPECT_TRUE(fs::is_directory(directory / "a/b/c"));
  create_directories_durably(directory / "a/b/c");  // again: nothing to do
  write_file_durably(directory / "a/file", "");
  EXPECT_THAT(error_of([&] { create_directories_durably(directory / "a/file/d"); }), HasSubstr("a file of that name"));
}

TEST(File, RenamesBetweenDirectories) {
  TemporaryDirectory directory;
  create_directories_durably(directory / "to");
  write_file_durably(directory / "a", "x");
  rename_durably(directory / "a", directory / "to/b");
  EXPECT_EQ(read_file(directory / "to/b"), "x");
  EXPECT_THAT(error_of([&] { rename_durably(directory / "a", directory / "c"); }), HasSubstr("rename to"));
}

TEST(FileLock, OnlyAnExclusiveLockMeansBeingWritten) {
  TemporaryDirectory directory;
  write_file_durably(directory / "a", "x");
  EXPECT_FALSE(locked_for_writing(directory / "a"));

  File other = File::open_read(directory / "a");
  ASSERT_EQ(flock(other.descriptor(), LOCK_SH), 0);
  EXPECT_FALSE(locked_for_writing(directory / "a"));
  ASSERT_EQ(flock(other.descriptor(), LOCK_EX), 0);
  EXPECT_TRUE(locked_for_writing(directory / "a"));
}

}  // namespace
}  // namespace longhaul
