#include "data/shards/dataset_builder.h"

#include <utility>

#include "data/shards/encoding_workers.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;
constexpr size_t kBatchRecords = 4096;

std::string notes_of(const BuildOptions& options) {
  static constexpr const char* kSeparators[] = {"blank-lines", "line", "file"};
  static constexpr const char* kFormats[] = {"auto", "text", "jsonl"};
  return fmt::format("documents by {}, format {}, text key '{}', split {},{},{} with seed {}",
                     kSeparators[static_cast<int>(options.records.separator)],
                     kFormats[static_cast<int>(options.records.format)], options.records.text_key, options.shares[0],
                     options.shares[1], options.shares[2], options.split_seed);
}

DatasetWriterOptions writer_options(const BuildOptions& options) {
  return {.output = options.output,
          .shares = options.shares,
          .split_seed = options.split_seed,
          .shard_tokens = options.shard_tokens,
          .notes = notes_of(options)};
}

class Builder {
 public:
  Builder(const BuildOptions& options, const Tokenizer& tokenizer)
      : options_(options),
        reader_(options.inputs, options.records),
        writer_(writer_options(options), tokenizer),
        workers_(tokenizer, options.records, options.inputs, options.workers) {}

  BuildResult run() {
    std::vector<RawRecord> batch;
    size_t batch_bytes = 0;
    for (RawRecord record; reader_.next(record);) {
      batch_bytes += record.bytes.size();
      batch.push_back(std::move(record));
      if (batch_bytes < kBatchBytes && batch.size() < kBatchRecords) continue;
      workers_.submit(std::move(batch));
      batch.clear();
      batch_bytes = 0;
      if (workers_.waiting() > 2 * options_.workers) write(workers_.take());
    }
    if (!batch.empty()) workers_.submit(std::move(batch));
    while (workers_.waiting() > 0) write(workers_.take());
    return finish();
  }

 private:
  void write(const EncodedBatch& batch) {
    int64_t begin = 0;
    for (const int64_t end : batch.ends) {
      writer_.add_document(std::span(batch.ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
      begin = end;
    }
    counts_.add(batch.counts);
    if (options_.progress) options_.progress({reader_.bytes_read(), writer_.documents(), writer_.tokens()});
  }

  BuildResult finish() {
    counts_.byte_order_marks = reader_.byte_order_marks();
    if (writer_.documents() == 0) {
      throw user_error("tokenize: found no document in {} files ({} records, all empty or blank); expected text",
                       options_.inputs.size(), counts_.records);
    }
    return {counts_, writer_.finish()};
  }

  const BuildOptions& options_;
  RecordReader reader_;
  DatasetWriter writer_;
  EncodingWorkers workers_;
  TextCounts counts_;
};

}  // namespace

BuildResult build_dataset(const BuildOptions& options, const Tokenizer& tokenizer) {
  return Builder(options, tokenizer).run();
}

}  // namespace longhaul
