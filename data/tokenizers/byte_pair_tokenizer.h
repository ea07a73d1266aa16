// GPT-2 byte-level BPE (Sennrich et al. 2016; Radford et al. 2019), id for id the reference encoder.
#pragma once

#include "data/tokenizers/byte_pair_tables.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/word_cache.h"

namespace longhaul {

class BytePairTokenizer final : public Tokenizer {
 public:
  static constexpr const char* kName = "gpt2";
  explicit BytePairTokenizer(std::shared_ptr<const BytePairTables> tables);

  using Tokenizer::encode;
  std::string name() const override { return kName; }
  int64_t vocab_size() const override { return tables_->vocab_size(); }
  int32_t end_of_text() const override { return tables_->end_of_text(); }
  void encode(std::string_view text, std::vector<int32_t>& ids) override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string model_bytes() const override { return tables_->bytes(); }
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<BytePairTokenizer>(tables_); }

 private:
  std::shared_ptr<const BytePairTables> tables_;
  WordCache cache_;
  std::vector<int32_t> word_ids_;
};

/// Replaces the byte ids of one word by merged ids: always the lowest rank first, leftmost among equals. O(n log n).
void merge_byte_pairs(const BytePairTables& tables, std::vector<int32_t>& ids);

}  // namespace longhaul
