#include "data/text/record_reader.h"

#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_json_name(std::filesystem::path path) {
  if (path.extension() == ".gz") path = path.stem();
  const auto extension = path.extension();
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
}

bool is_blank_line(std::string_view line) { return line.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos; }

}  // namespace

RecordReader::RecordReader(std::vector<std::filesystem::path> files, RecordOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  if (files_.empty()) throw user_error("tokenize: found no input file, expected at least one");
  if (options_.block_bytes < 1)
    throw user_error("tokenize: block of {} bytes, expected at least 1", options_.block_bytes);
  // Every file is opened once before any work, so that a wrong name costs seconds and not hours.
  for (const auto& file : files_) open_byte_source(file);
}

bool RecordReader::open_next_file() {
  if (++file_ >= static_cast<int64_t>(files_.size())) return false;
  const auto& path = files_[static_cast<size_t>(file_)];
  source_ = open_byte_source(path);
  json_ = options_.format == TextFormat::kJsonLines || (options_.format == TextFormat::kAuto && is_json_name(path));
  line_ = 0;
  buffer_.clear();
  begin_ = 0;
  at_end_ = false;
  inspect_start();
  return true;
}

void RecordReader::inspect_start() {
  while (buffer_.size() < kByteOrderMark.size() && fill()) {
  }
  if (buffer_.starts_with(kByteOrderMark)) {
    begin_ = kByteOrderMark.size();
    ++byte_order_marks_;
  } else if (buffer_.starts_with("\xFF\xFE") || buffer_.starts_with("\xFE\xFF")) {
    throw user_error("{}: found UTF-16 text, expected UTF-8; convert it with: iconv -f UTF-16 -t UTF-8",
                     files_[static_cast<size_t>(file_)].string());
  }
}

bool RecordReader::fill() {
  if (at_end_) return false;
  if (begin_ > 0 && begin_ * 2 >= buffer_.size()) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const size_t old = buffer_.size();
  buffer_.resize(old + static_cast<size_t>(options_.block_bytes));
  const int64_t count = source_->read({buffer_.data() + old, static_cast<size_t>(options_.block_bytes)});
  buffer_.resize(old + static_cast<size_t>(count));
  bytes_read_ += count;
  at_end_ = count == 0;
  return !at_end_;
}

bool RecordReader::next_line(std::string_view& line) {
  size_t searched = 0;  // from begin_, which fill() may move
  for (;;) {
    const size_t found = buffer_.find('\n', begin_ + searched);
    if (found != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, found + 1 - begin_);
      break;
    }
    searched = buffer_.size() - begin_;
    if (fill()) continue;
    if (searched == 0) return false;
    line = std::string_view(buffer_).substr(begin_);
    break;
  }
  begin_ += line.size();
  ++line_;
  return true;
}

bool RecordReader::next_line_record(RawRecord& record) {
  std::string_view line;
  if (!next_line(line)) return false;
  record.bytes = line;
  record.line = line_;
  return true;
}

bool RecordReader::next_paragraph(RawRecord& record) {
  record.bytes.clear();
  std::string_view line;
  while (next_line(line)) {
    if (!is_blank_line(line)) {
      if (record.bytes.empty()) record.line = line_;
      record.bytes += line;
    } else if (!record.bytes.empty()) {
      return true;
    }
  }
  return !record.bytes.empty();
}

bool RecordReader::next_whole_file(RawRecord& record) {
  if (line_ > 0) return false;
  line_ = 1;
  while (fill()) {
  }
  record.bytes = buffer_.substr(begin_);
  record.line = 1;
  return true;
}

bool RecordReader::next(RawRecord& record) {
  for (;;) {
    if (source_ != nullptr) {
      const bool found = json_ || options_.separator == Separator::kLine ? next_line_record(record)
                         : options_.separator == Separator::kFile        ? next_whole_file(record)
                                                                         : next_paragraph(record);
      if (found) {
        record.file = file_;
        record.json = json_;
        return true;
      }
    }
    if (!open_next_file()) return false;
  }
}

bool document_of(const RawRecord& record, const RecordOptions& options, const std::string& file_name, std::string& text,
                 TextCounts& counts) {
  ++counts.records;
  text = clean_text(record.bytes, counts);
  if (record.json && !is_blank(text)) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    const auto where = [&] { return fmt::format("{}: line {}", file_name, record.line); };
    if (!json.is_object()) throw user_error("{}: found no JSON object, expected one per line", where());
    const auto value = json.find(options.text_key);
    if (value == json.end() || !value->is_string()) {
      throw user_error("{}: found no text under key '{}'; name the key with --text-key", where(), options.text_key);
    }
    text = clean_text(value->get_ref<const std::string&>(), counts);
  } else if (record.json || options.separator != Separator::kFile) {
    if (text.ends_with('\n')) text.pop_back();
  }
  if (text.empty()) {
    ++counts.empty;
  } else if (is_blank(text)) {
    ++counts.blank;
  } else {
    ++counts.kept;
    counts.bytes += static_cast<int64_t>(text.size());
    return true;
  }
  return false;
}

}  // namespace longhaul
