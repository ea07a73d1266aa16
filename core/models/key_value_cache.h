// Keys and values of the tokens a batch of sequences has seen, and attention of new tokens over them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/models/decode_rows.h"
#include "core/models/language_model.h"
#include "core/ops/attention.h"

namespace longhaul {

/// Per layer a [sequences, max_length, key_heads * head_size] tensor of rotated keys and one of values.
class KeyValueCache : public DecodeState {
 public:
  KeyValueCache(int64_t layers, int64_t sequences, int64_t max_length, int64_t columns, DType dtype);

  int64_t sequences() const override { return static_cast<int64_t>(lengths_.size()); }
  int64_t length(int64_t sequence) const override { return lengths_[sequence]; }
  void clear(int64_t sequence) override { lengths_[sequence] = 0; }
  int64_t max_length() const { return max_length_; }

  /// Attention of `rows` in qkv [rows, (Hq + 2 Hkv) D] over everything their sequences have seen, themselves included:
  /// rotates q and k in place, appends k and v, returns [rows, Hq D]. A prior goes by the positions in the sequence,
  /// all of which it must cover (internal_error).
  Tensor attend(int64_t layer, const Tensor& qkv, const DecodeRows& rows, const ops::AttentionOptions& options,
                const ops::PriorFactors& prior = {});
  /// Counts `rows` as seen: call once all layers have attended.
  void advance(const DecodeRows& rows);

 private:
  int64_t max_length_, columns_;
  std::vector<int64_t> lengths_;
  std::vector<Tensor> keys_, values_;
};

}  // namespace longhaul
