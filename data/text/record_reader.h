// Cuts input files into raw records, one after another. What it returns does not depend on the size of the blocks read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/byte_source.h"
#include "data/text/text_policy.h"

namespace longhaul {

enum class Separator : uint8_t {
  kBlankLines,  ///< one or more lines of white space alone stand between documents; the last line end is no part of one
  kLine,        ///< every line is a document, without its line end
  kFile         ///< every file is a document, as it is
};

enum class TextFormat : uint8_t { kAuto /* by name: .jsonl, .ndjson, .json, before .gz too */, kText, kJsonLines };

struct RecordOptions {
  TextFormat format = TextFormat::kAuto;
  Separator separator = Separator::kBlankLines;
  std::string text_key = "text";  ///< JSON lines: which value is the text
  int64_t block_bytes = 1 << 20;  ///< > 0: bytes asked for at a time
};

struct RawRecord {
  std::string bytes;
  int64_t file = 0;  ///< index into the list of files
  int64_t line = 0;  ///< its first line, from 1
  bool json = false;
};

class RecordReader {
 public:
  RecordReader(std::vector<std::filesystem::path> files, RecordOptions options);
  bool next(RawRecord& record);                       ///< false at the end of the last file
  int64_t bytes_read() const { return bytes_read_; }  ///< after unpacking
  const std::vector<std::filesystem::path>& files() const { return files_; }
  int64_t byte_order_marks() const { return byte_order_marks_; }

 private:
  bool open_next_file();
  void inspect_start();
  bool fill();
  bool next_line(std::string_view& line);  // with its line end; valid until the next call
  bool next_line_record(RawRecord& record);
  bool next_paragraph(RawRecord& record);
  bool next_whole_file(RawRecord& record);

  std::vector<std::filesystem::path> files_;
  RecordOptions options_;
  int64_t file_ = -1, line_ = 0;
  bool json_ = false;
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;  // unread bytes are [begin_, size)
  size_t begin_ = 0;
  bool at_end_ = true;
  int64_t bytes_read_ = 0, byte_order_marks_ = 0;
};

/// A record as a document: JSON parsed, cleaned, last line end cut. False (and counted) when it is dropped.
/// user_error naming file and line for a line that is no JSON object with a text under options.text_key.
bool document_of(const RawRecord& record, const RecordOptions& options, const std::string& file_name, std::string& text,
                 TextCounts& counts);

}  // namespace longhaul
