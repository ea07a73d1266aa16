#include "data/stream/token_stream.h"

#include "data/stream/mixture.h"
#include "data/stream/packed_split.h"
#include "data/stream/row_permutation.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

std::vector<std::unique_ptr<PackedSplit>> open_splits(const DataConfig& config, const std::string& split) {
  if (config.datasets.empty()) throw user_error("data.datasets: found none, expected at least one dataset directory");
  std::vector<std::unique_ptr<PackedSplit>> splits;
  for (const DatasetChoice& choice : config.datasets) {
    splits.push_back(std::make_unique<PackedSplit>(choice, config, split));
    const TokenizerRecord& first = splits.front()->dataset().manifest().tokenizer;
    const TokenizerRecord& own = splits.back()->dataset().manifest().tokenizer;
    if (own.fingerprint != first.fingerprint || own.vocab_size != first.vocab_size) {
      throw user_error(
          "datasets {} and {} have different tokenizers ({} of {} and {} of {} tokens); tokenize both alike",
          config.datasets.front().directory.string(), choice.directory.string(), first.name, first.vocab_size, own.name,
          own.vocab_size);
    }
  }
  return splits;
}

/// Collects rows for make_batch.
class BatchBuilder {
 public:
  BatchBuilder(int64_t rows, int64_t length)
      : rows_(rows), length_(length), ids_(size()), targets_(size()), document_start_(size()) {}

  RowBuffers row(int64_t index) {
    const int64_t at = index * length_;
    return {ids_.data() + at, targets_.data() + at, document_start_.data() + at};
  }
  Batch finish(int64_t first_sample) {
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < rows_; ++i) samples.push_back(first_sample + i);
    return make_batch(rows_, length_, std::move(ids_), std::move(targets_), std::move(document_start_),
                      std::move(samples));
  }

 private:
  size_t size() const { return static_cast<size_t>(rows_ * length_); }
  int64_t rows_, length_;
  std::vector<int32_t> ids_, targets_, document_start_;
};

void require_range(const char* what, int64_t first, int64_t count) {
  if (first < 0 || count < 1) throw internal_error("{}: rows [{}, +{}) asked for", what, first, count);
}

std::unique_ptr<Mixture> mixture_of(const DataConfig& config) {
  std::vector<double> weights;
  for (const DatasetChoice& choice : config.datasets) weights.push_back(choice.weight);
  return std::make_unique<Mixture>(weights);
}

}  // namespace

TokenStream::TokenStream(const DataConfig& config, const std::string& split)
    : config_(config), mixture_(mixture_of(config)), splits_(open_splits(config, split)) {}
TokenStream::~TokenStream() = default;
TokenStream::TokenStream(TokenStream&&) noexcept = default;
TokenStream& TokenStream::operator=(TokenStream&&) noexcept = default;

SampleOrigin TokenStream::origin(int64_t sample) const {
  const Mixture::Place place = mixture_->locate(sample);
  const int64_t rows = rows_per_epoch(place.dataset);
  SampleOrigin origin{place.dataset, place.index / rows, place.index % rows};
  if (config_.shuffle) {
    origin.row = RowPermutation(rows, config_.seed, origin.dataset, origin.epoch).row_at(origin.row);
  }
  return origin;
}

Batch TokenStream::rows(int64_t first_sample, int64_t count) {
  require_range("stream", first_sample, count);
  BatchBuilder batch(count, config_.context);
  for (int64_t i = 0; i < count; ++i) {
    const SampleOrigin from = origin(first_sample + i);
    splits_[static_cast<size_t>(from.dataset)]->read_row(from.row, batch.row(i));
  }
  return batch.finish(first_sample);
}

int64_t TokenStream::vocab_size() const { return splits_.front()->dataset().manifest().tokenizer.vocab_size; }
int64_t TokenStream::rows_per_epoch(int64_t dataset) const { return splits_.at(static_cast<size_t>(dataset))->rows(); }
int64_t TokenStream::tokens_per_epoch(int64_t dataset) const {
  return splits_.at(static_cast<size_t>(dataset))->tokens();
}

int64_t TokenStream::skipped_empty_shards() const {
  int64_t count = 0;
  for (const auto& split : splits_) count += split->empty_shards();
  return count;
}

std::string TokenStream::tokenizer_fingerprint() const {
  return splits_.front()->dataset().manifest().tokenizer.fingerprint;
}
std::string TokenStream::serialised_tokenizer() const { return splits_.front()->dataset().serialised_tokenizer(); }
std::unique_ptr<Tokenizer> TokenStream::tokenizer() const {
  const Dataset& dataset = splits_.front()->dataset();
  return restore_tokenizer(dataset.serialised_tokenizer(), (dataset.directory() / "tokenizer").string());
}

ValidationSet::ValidationSet(const DataConfig& config, const std::string& split)
    : config_(config), splits_(open_splits(config, split)) {}
ValidationSet::~ValidationSet() = default;
ValidationSet::ValidationSet(ValidationSet&&) noexcept = default;
ValidationSet& ValidationSet::operator=(ValidationSet&&) noexcept = default;

int64_t ValidationSet::rows_total() const {
  int64_t rows = 0;
  for (const auto& split : splits_) rows += split->rows();
  return rows;
}

int64_t ValidationSet::tokens_total() const {
  int64_t tokens = 0;
  for (const auto& split : splits_) tokens += split->tokens();
  return tokens;
}

int64_t ValidationSet::vocab_size() const { return splits_.front()->dataset().manifest().tokenizer.vocab_size; }

Batch ValidationSet::rows(int64_t first_row, int64_t count) {
  require_range("validation", first_row, count);
  BatchBuilder batch(count, config_.context);
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = first_row + i;
    size_t which = 0;
    while (which < splits_.size() && row >= splits_[which]->rows()) row -= splits_[which++]->rows();
    if (which < splits_.size()) {
      splits_[which]->read_row(row, batch.row(i));
    } else {
      splits_.front()->fill_padding(batch.row(i));
    }
  }
  return batch.finish(first_row);
}

}  // namespace longhaul
