// Threads that turn raw records into token ids; results come back in the order of submission, whatever their number.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/text/record_reader.h"
#include "data/tokenizers/tokenizer.h"

namespace longhaul {

/// The documents of one batch of records, one after another, each closed by the end-of-text id.
struct EncodedBatch {
  std::vector<int32_t> ids;
  std::vector<int64_t> ends;  ///< per document: where it ends in ids
  TextCounts counts;
};

class EncodingWorkers {
 public:
  EncodingWorkers(const Tokenizer& tokenizer, const RecordOptions& options, std::vector<std::filesystem::path> files,
                  int64_t workers);
  ~EncodingWorkers();
  EncodingWorkers(const EncodingWorkers&) = delete;
  EncodingWorkers& operator=(const EncodingWorkers&) = delete;

  void submit(std::vector<RawRecord> records);
  EncodedBatch take();  ///< waits for the oldest batch; throws what its worker threw
  int64_t waiting() const { return static_cast<int64_t>(results_.size()); }

 private:
  using Task = std::packaged_task<EncodedBatch(Tokenizer&)>;
  void work(std::unique_ptr<Tokenizer> tokenizer);
  EncodedBatch encode(const std::vector<RawRecord>& records, Tokenizer& tokenizer) const;

  RecordOptions options_;
  std::vector<std::filesystem::path> files_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_
  bool stop_ = false;       // guarded by mutex_
  std::deque<std::future<EncodedBatch>> results_;
  std::vector<std::thread> threads_;
};

}  // namespace longhaul
