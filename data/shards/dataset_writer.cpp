#include "data/shards/dataset_writer.h"

#include <charconv>
#include <cmath>

#include "core/io/file.h"
#include "kernels/error.h"
#include "kernels/philox.h"

namespace longhaul {
namespace {

constexpr const char* kTokenizerFile = "tokenizer.bin";
constexpr uint32_t kSplitDraw = 0x53504C54;  // purpose of the random stream

TokenizerRecord store_tokenizer(const Tokenizer& tokenizer, const fs::path& directory) {
  write_file_durably(directory / kTokenizerFile, serialise_tokenizer(tokenizer));
  return {tokenizer.name(),        tokenizer.vocab_size(), tokenizer.end_of_text(),
          tokenizer.fingerprint(), kTokenizerFile,         digest_file(directory / kTokenizerFile)};
}

}  // namespace

DatasetWriter::DatasetWriter(const DatasetWriterOptions& options, const Tokenizer& tokenizer)
    : options_(options), lock_(options.output) {
  manifest_.tokenizer = store_tokenizer(tokenizer, options.output);
  manifest_.token_type = token_type_for(tokenizer.vocab_size());
  manifest_.notes = options.notes;
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    writers_.emplace_back(options.output, kSplitNames[i], manifest_.tokenizer, options.shard_tokens, options.masked[i]);
  }
}

void DatasetWriter::add_document(std::span<const int32_t> ids, std::span<const uint8_t> target_mask) {
  add_document_to(next_split(), ids, target_mask);
}

void DatasetWriter::add_document_to(int64_t split, std::span<const int32_t> ids, std::span<const uint8_t> target_mask) {
  writers_.at(static_cast<size_t>(split)).add_document(ids, target_mask);
  ++documents_;
}

int64_t DatasetWriter::tokens() const { return writers_[0].tokens() + writers_[1].tokens() + writers_[2].tokens(); }

Manifest DatasetWriter::finish() {
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    if (options_.shares[i] > 0 && writers_[i].tokens() == 0) {
      throw user_error(
          "split {} has 0 tokens: none of the {} documents fell into its share of {},{},{}; give it a larger share, 0 "
          "to do without, or make more documents",
          kSplitNames[i], documents_, options_.shares[0], options_.shares[1], options_.shares[2]);
    }
  }
  for (ShardWriter& writer : writers_) {
    for (ShardEntry& entry : writer.finish()) manifest_.shards.push_back(std::move(entry));
  }
  write_file_durably(options_.output / Manifest::kFileName, manifest_.to_json());
  lock_.release();
  return manifest_;
}

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

}  // namespace longhaul
