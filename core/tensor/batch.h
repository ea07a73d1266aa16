// One micro-batch slot: rows of packed documents and everything a model needs to know about them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"

namespace longhaul {

/// All tensors are on the CPU. B rows of T tokens.
struct Batch {
  Tensor ids;      ///< i32 [B, T], in [0, vocabulary)
  Tensor targets;  ///< i32 [B, T]; -1: not a valid target (padding, last token of a document, masked)
  Tensor
      document_start;  ///< i32 [B, T]: row position at which the token's document begins; all 0 without document masks
  Tensor positions;    ///< i32 [B, T]: t - document_start[b, t]
  std::vector<int64_t> sample_ids;  ///< B global sample ids: key of every random draw

  int64_t rows() const { return ids.size(0); }
  int64_t length() const { return ids.size(1); }
  int64_t tokens() const { return ids.count(); }
  int64_t valid_targets() const;
};

/// A batch of B rows of length T from flat ids and targets; document_start empty: one document per row.
Batch make_batch(int64_t rows, int64_t length, std::vector<int32_t> ids, std::vector<int32_t> targets,
                 std::vector<int32_t> document_start, std::vector<int64_t> sample_ids);

}  // namespace longhaul
