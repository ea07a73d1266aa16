#include "data/text/byte_source.h"

#include <zlib.h>

#include "core/io/file.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const fs::path& path) : file_(File::open_read(path)) {}
  int64_t read(std::span<char> bytes) override { return file_.read(std::as_writable_bytes(bytes)); }

 private:
  File file_;
};

// The only user of zlib's gz functions.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const fs::path& path) : path_(path.string()), file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr) throw system_error("{}: gzopen failed; check that the file can be read", path_);
    gzbuffer(file_, 1 << 18);
    if (gzdirect(file_) != 0) {
      gzclose(file_);
      throw user_error("{}: found no gzip data, expected some after the name .gz; rename or pack the file", path_);
    }
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { gzclose(file_); }

  int64_t read(std::span<char> bytes) override {
    const int count = gzread(file_, bytes.data(), static_cast<unsigned>(bytes.size()));
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw user_error("{}: damaged or cut gzip data ({}); fetch or pack the file again", path_,
                       code == Z_ERRNO ? "read error" : text);
    }
    return count;
  }

 private:
  std::string path_;
  gzFile file_;
};

}  // namespace

std::unique_ptr<ByteSource> open_byte_source(const fs::path& path) {
  if (!fs::is_regular_file(path)) throw user_error("{}: found no regular file, expected a text to read", path.string());
  if (path.extension() == ".gz") return std::make_unique<GzipSource>(path);
  return std::make_unique<PlainSource>(path);
}

}  // namespace longhaul
