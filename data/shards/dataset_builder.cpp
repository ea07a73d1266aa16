#include "data/shards/dataset_builder.h"

#include <algorithm>
#include <deque>
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
  std::string notes = fmt::format("documents by {}, format {}, text key '{}', split {},{},{} with seed {}",
                                  kSeparators[static_cast<int>(options.records.separator)],
                                  kFormats[static_cast<int>(options.records.format)], options.records.text_key,
                                  options.shares[0], options.shares[1], options.shares[2], options.split_seed);
  for (size_t split = 0; split < kSplitNames.size(); ++split) {
    const auto whole =
        std::count(options.input_splits.begin(), options.input_splits.end(), static_cast<int64_t>(split));
    if (whole > 0) notes += fmt::format(", {} of {} files {} alone", whole, options.inputs.size(), kSplitNames[split]);
  }
  return notes;
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
    std::optional<int64_t> split;  // of the batch
    for (RawRecord record; reader_.next(record);) {
      if (!batch.empty() && split_of(record) != split) submit(batch, batch_bytes, split);
      split = split_of(record);
      batch_bytes += record.bytes.size();
      batch.push_back(std::move(record));
      if (batch_bytes < kBatchBytes && batch.size() < kBatchRecords) continue;
      submit(batch, batch_bytes, split);
    }
    if (!batch.empty()) submit(batch, batch_bytes, split);
    while (workers_.waiting() > 0) write();
    return finish();
  }

 private:
  /// Of all documents of the record's file; nothing: drawn.
  std::optional<int64_t> split_of(const RawRecord& record) const {
    const auto file = static_cast<size_t>(record.file);
    return file < options_.input_splits.size() ? options_.input_splits[file] : std::nullopt;
  }

  /// Hands the batch to the workers and empties it.
  void submit(std::vector<RawRecord>& batch, size_t& batch_bytes, std::optional<int64_t> split) {
    workers_.submit(std::move(batch));
    splits_.push_back(split);
    batch.clear();
    batch_bytes = 0;
    if (workers_.waiting() > 2 * options_.workers) write();
  }

  /// The oldest batch.
  void write() {
    const EncodedBatch batch = workers_.take();
    const std::optional<int64_t> split = splits_.front();
    splits_.pop_front();
    int64_t begin = 0;
    for (const int64_t end : batch.ends) {
      const auto ids = std::span(batch.ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      const int64_t goes_to = split.value_or(writer_.next_split());
      writer_.add_document_to(goes_to, ids);
      if (split) ++placed_[static_cast<size_t>(goes_to)];
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
    for (const std::optional<int64_t>& split : options_.input_splits) {
      if (split && placed_.at(static_cast<size_t>(*split)) == 0) {
        throw user_error("split {} has 0 tokens: the files that are to be it alone hold no document",
                         kSplitNames[static_cast<size_t>(*split)]);
      }
    }
    return {counts_, writer_.finish()};
  }

  const BuildOptions& options_;
  RecordReader reader_;
  DatasetWriter writer_;
  EncodingWorkers workers_;
  std::deque<std::optional<int64_t>> splits_;  // of the batches that the workers have
  std::array<int64_t, 3> placed_ = {};         // documents by split, of files that are one split alone
  TextCounts counts_;
};

}  // namespace

BuildResult build_dataset(const BuildOptions& options, const Tokenizer& tokenizer) {
  return Builder(options, tokenizer).run();
}

}  // namespace longhaul
