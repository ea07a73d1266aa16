// The training stream: an endless weighted mixture of packed rows whose order is a pure function of (seed, position).
// Its whole state is one integer, the number of samples consumed; any sample is found in O(log n) without history.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/batch.h"
#include "data/stream/data_config.h"
#include "data/tokenizers/tokenizer.h"

namespace longhaul {

class Mixture;
class PackedSplit;

/// Where a sample comes from.
struct SampleOrigin {
  int64_t dataset = 0;  ///< index into DataConfig::datasets
  int64_t epoch = 0;    ///< complete passes over that dataset before this one
  int64_t row = 0;      ///< packed row of its split
};

/// One per process and thread; files are opened lazily, after a fork again.
class TokenStream {
 public:
  /// Reads the manifests only. user_error: no dataset, unreadable or foreign directory, split without tokens,
  /// tokenizers differ.
  explicit TokenStream(const DataConfig& config, const std::string& split = "train");
  ~TokenStream();
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;

  /// Samples [first_sample, first_sample + count) as one batch [count, context]; sample_ids are the sample numbers.
  Batch rows(int64_t first_sample, int64_t count);
  SampleOrigin origin(int64_t sample) const;

  int64_t vocab_size() const;
  int64_t rows_per_epoch(int64_t dataset) const;
  int64_t tokens_per_epoch(int64_t dataset) const;
  int64_t skipped_empty_shards() const;  ///< shards with 0 documents, over all datasets
  std::string tokenizer_fingerprint() const;
  std::unique_ptr<Tokenizer> tokenizer() const;  ///< restored from the first dataset
  std::string serialised_tokenizer() const;      ///< its bytes, verified, for checkpoints

 private:
  DataConfig config_;
  std::unique_ptr<Mixture> mixture_;
  std::vector<std::unique_ptr<PackedSplit>> splits_;
};

/// The same rows in the order they lie in, each once: for validation. Datasets follow one another; weights play no
/// part. Every token is input once and (but for the first token of a document with masks, of the dataset without)
/// target once.
class ValidationSet {
 public:
  explicit ValidationSet(const DataConfig& config, const std::string& split = "valid");
  ~ValidationSet();
  ValidationSet(ValidationSet&&) noexcept;
  ValidationSet& operator=(ValidationSet&&) noexcept;

  int64_t rows_total() const;
  int64_t tokens_total() const;
  int64_t vocab_size() const;
  /// Rows [first_row, first_row + count); rows past the end are padding whose targets are all -1. sample_ids are row
  /// numbers.
  Batch rows(int64_t first_row, int64_t count);

 private:
  DataConfig config_;
  std::vector<std::unique_ptr<PackedSplit>> splits_;
};

}  // namespace longhaul
