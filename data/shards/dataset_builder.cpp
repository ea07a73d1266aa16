#include "data/shards/dataset_builder.h"

#include <charconv>
#include <cmath>

#include "core/io/file.h"
#include "data/shards/encoding_workers.h"
#include "data/shards/shard_writer.h"
#include "data/shards/writer_lock.h"
#include "kernels/error.h"
#include "kernels/philox.h"

namespace longhaul {
namespace {

constexpr const char* kTokenizerFile = "tokenizer.bin";
constexpr uint32_t kSplitDraw = 0x53504C54;  // purpose of the random stream
constexpr size_t kBatchBytes = size_t{1} << 20;
constexpr size_t kBatchRecords = 4096;

TokenizerRecord store_tokenizer(const Tokenizer& tokenizer, const fs::path& directory) {
  write_file_durably(directory / kTokenizerFile, serialise_tokenizer(tokenizer));
  return {tokenizer.name(),        tokenizer.vocab_size(), tokenizer.end_of_text(),
          tokenizer.fingerprint(), kTokenizerFile,         digest_file(directory / kTokenizerFile)};
}

std::string notes_of(const BuildOptions& options) {
  static constexpr const char* kSeparators[] = {"blank-lines", "line", "file"};
  static constexpr const char* kFormats[] = {"auto", "text", "jsonl"};
  return fmt::format("documents by {}, format {}, text key '{}', split {},{},{} with seed {}",
                     kSeparators[static_cast<int>(options.records.separator)],
                     kFormats[static_cast<int>(options.records.format)], options.records.text_key, options.shares[0],
                     options.shares[1], options.shares[2], options.split_seed);
}

class Builder {
 public:
  Builder(const BuildOptions& options, const Tokenizer& tokenizer)
      : options_(options),
        reader_(options.inputs, options.records),
        lock_(options.output),
        workers_(tokenizer, options.records, options.inputs, options.workers) {
    result_.manifest.tokenizer = store_tokenizer(tokenizer, options.output);
    result_.manifest.token_type = token_type_for(tokenizer.vocab_size());
    result_.manifest.notes = notes_of(options);
    for (const char* split : kSplitNames) {
      writers_.emplace_back(options.output, split, result_.manifest.tokenizer, options.shard_tokens);
    }
  }

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
      const int64_t split = split_of_document(options_.split_seed, documents_++, options_.shares);
      writers_[static_cast<size_t>(split)].add_document(
          std::span(batch.ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
      begin = end;
    }
    result_.counts.add(batch.counts);
    if (options_.progress) {
      const int64_t tokens = writers_[0].tokens() + writers_[1].tokens() + writers_[2].tokens();
      options_.progress({reader_.bytes_read(), documents_, tokens});
    }
  }

  BuildResult finish() {
    result_.counts.byte_order_marks = reader_.byte_order_marks();
    if (documents_ == 0) {
      throw user_error("tokenize: found no document in {} files ({} records, all empty or blank); expected text",
                       options_.inputs.size(), result_.counts.records);
    }
    for (size_t i = 0; i < kSplitNames.size(); ++i) {
      if (options_.shares[i] > 0 && writers_[i].tokens() == 0) {
        throw user_error(
            "split {} has 0 tokens: none of the {} documents fell into its share of {},{},{}; give it a larger share, "
            "0 "
            "to do without, or cut the text into more documents",
            kSplitNames[i], documents_, options_.shares[0], options_.shares[1], options_.shares[2]);
      }
    }
    for (ShardWriter& writer : writers_) {
      for (ShardEntry& entry : writer.finish()) result_.manifest.shards.push_back(std::move(entry));
    }
    write_file_durably(options_.output / Manifest::kFileName, result_.manifest.to_json());
    lock_.release();
    return result_;
  }

  const BuildOptions& options_;
  RecordReader reader_;
  WriterLock lock_;
  EncodingWorkers workers_;
  std::vector<ShardWriter> writers_;
  BuildResult result_;
  int64_t documents_ = 0;
};

}  // namespace

int64_t split_of_document(uint64_t seed, int64_t document, const SplitShares& shares) {
  uint32_t draw[4];
  kernels::random_bits4({seed, 0, kSplitDraw}, static_cast<uint64_t>(document), 0, draw);
  const double point = draw[0] / 4294967296.0 * (shares[0] + shares[1] + shares[2]);
  // A share of 0 is never chosen: the point lies strictly below the sum of the shares up to the last positive one.
  if (point < shares[0]) return 0;
  return point < shares[0] + shares[1] || shares[2] == 0 ? 1 : 2;
}

SplitShares parse_split_shares(const std::string& text) {
  SplitShares shares{};
  size_t begin = 0;
  bool good = true;
  for (size_t i = 0; i < 3 && good; ++i) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto parsed = std::from_chars(text.data() + begin, text.data() + end, shares[i]);
    good = parsed.ec == std::errc() && parsed.ptr == text.data() + end && shares[i] >= 0 && std::isfinite(shares[i]) &&
           (i == 2) == (end == text.size());
    begin = end + 1;
  }
  if (!good || shares[0] + shares[1] + shares[2] <= 0) {
    throw user_error("--split {}: expected three shares for train,valid,test, each 0 or more, like 98,1,1", text);
  }
  return shares;
}

BuildResult build_dataset(const BuildOptions& options, const Tokenizer& tokenizer) {
  return Builder(options, tokenizer).run();
}

}  // namespace longhaul
