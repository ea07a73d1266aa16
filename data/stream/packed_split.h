// One split of one dataset cut into rows of `context` tokens.
//
// The rule: the documents of the split, each closed by its end-of-text id, stand one behind another in manifest order;
// row r is tokens [r T, (r + 1) T) of that sequence. So short documents are packed, long ones go on in the next row,
// and every token is input exactly once per epoch. The last row is filled with end-of-text ids whose targets are -1.
// The target of a token is the token behind it, across the row's end too. With document masks the end-of-text id
// belongs to the document it closes: it is a target, has none itself (-1), and the first token of a document is never a
// target. A token whose shard's target mask says 0 is no target (-1 at the token before it).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/shards/dataset.h"
#include "data/stream/data_config.h"

namespace longhaul {

/// Where a row is written: `context` entries each.
struct RowBuffers {
  int32_t* ids;
  int32_t* targets;
  int32_t* document_start;
};

class PackedSplit {
 public:
  /// user_error when the split has no tokens.
  PackedSplit(const DatasetChoice& choice, const DataConfig& config, const std::string& split);

  int64_t rows() const { return (tokens_ + context_ - 1) / context_; }
  int64_t tokens() const { return tokens_; }
  int64_t empty_shards() const { return empty_shards_; }
  const Dataset& dataset() const { return dataset_; }
  void read_row(int64_t row, const RowBuffers& out);
  /// A row of padding alone.
  void fill_padding(const RowBuffers& out) const { fill_padding(out, 0); }

 private:
  void read_tokens(int64_t begin, int64_t count);
  void fill_padding(const RowBuffers& out, int64_t from) const;

  Dataset dataset_;
  int64_t context_;
  bool document_mask_;
  std::vector<int64_t> shards_;       // indices into the manifest
  std::vector<int64_t> shard_begin_;  // first token of each, counted over the split
  int64_t tokens_ = 0, empty_shards_ = 0;
  std::vector<int32_t> tokens_read_;
  std::vector<uint8_t> opens_document_, is_target_;  // parallel to tokens_read_
};

}  // namespace longhaul
