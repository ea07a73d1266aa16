// The lines of the documents of some files, for training a tokenizer.
#pragma once

#include <string>

#include "data/text/record_reader.h"

namespace longhaul {

class TrainingLines {
 public:
  /// Text beyond this is left out: a vocabulary learns nothing new from it, and the trainer keeps all of it in memory.
  static constexpr int64_t kMostBytes = int64_t{256} << 20;

  TrainingLines(std::vector<std::filesystem::path> files, const RecordOptions& options);
  /// Fills the next line, without its end; false when there is none. Documents are cleaned as for tokenizing.
  bool next(std::string& line);

 private:
  RecordReader reader_;
  RecordOptions options_;
  std::string document_;
  size_t begin_ = 0;
  int64_t bytes_ = 0;
  TextCounts counts_;
};

}  // namespace longhaul
