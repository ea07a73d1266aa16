#include "data/shards/encoding_workers.h"

#include "kernels/error.h"

namespace longhaul {

EncodingWorkers::EncodingWorkers(const Tokenizer& tokenizer, const RecordOptions& options,
                                 std::vector<std::filesystem::path> files, int64_t workers)
    : options_(options), files_(std::move(files)) {
  if (workers < 1) throw user_error("tokenize: {} workers, expected at least 1", workers);
  for (int64_t i = 0; i < workers; ++i) {
    threads_.emplace_back([this, own = tokenizer.clone()]() mutable { work(std::move(own)); });
  }
}

EncodingWorkers::~EncodingWorkers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    tasks_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void EncodingWorkers::work(std::unique_ptr<Tokenizer> tokenizer) {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (stop_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task(*tokenizer);
  }
}

EncodedBatch EncodingWorkers::encode(const std::vector<RawRecord>& records, Tokenizer& tokenizer) const {
  EncodedBatch batch;
  std::string text;
  for (const RawRecord& record : records) {
    const std::string name = files_[static_cast<size_t>(record.file)].string();
    if (!document_of(record, options_, name, text, batch.counts)) continue;
    tokenizer.encode(text, batch.ids);
    batch.ids.push_back(tokenizer.end_of_text());
    batch.ends.push_back(static_cast<int64_t>(batch.ids.size()));
  }
  return batch;
}

void EncodingWorkers::submit(std::vector<RawRecord> records) {
  Task task([this, records = std::move(records)](Tokenizer& tokenizer) { return encode(records, tokenizer); });
  results_.push_back(task.get_future());
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

EncodedBatch EncodingWorkers::take() {
  std::future<EncodedBatch> result = std::move(results_.front());
  results_.pop_front();
  return result.get();
}

}  // namespace longhaul
