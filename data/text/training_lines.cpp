#include "data/text/training_lines.h"

namespace longhaul {

TrainingLines::TrainingLines(std::vector<std::filesystem::path> files, const RecordOptions& options)
    : reader_(std::move(files), options), options_(options) {}

bool TrainingLines::next(std::string& line) {
  while (begin_ >= document_.size()) {
    RawRecord record;
    if (bytes_ >= kMostBytes || !reader_.next(record)) return false;
    begin_ = 0;
    const std::string name = reader_.files()[static_cast<size_t>(record.file)].string();
    if (!document_of(record, options_, name, document_, counts_)) document_.clear();
    bytes_ += static_cast<int64_t>(document_.size());
  }
  const size_t end = std::min(document_.find('\n', begin_), document_.size());
  line.assign(document_, begin_, end - begin_);
  begin_ = end + 1;
  return true;
}

}  // namespace longhaul
