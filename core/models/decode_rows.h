// The new tokens of a decoding call: runs of rows of one packed activation matrix, one run for each sequence that was
// given any.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"

namespace longhaul {

/// New tokens of one sequence, as a run of rows in a packed activation matrix.
struct SequenceRows {
  int64_t sequence;
  int64_t begin;  ///< first row
  int64_t count;
};

struct DecodeRows {
  std::vector<SequenceRows> runs;  ///< in row order, each sequence at most once
  Tensor positions;                ///< i32 [rows]: position of every row within its sequence
};

/// Rows [begin, begin + count) that are one token each of sequences [sequence, sequence + count).
struct StepRows {
  int64_t begin;
  int64_t sequence;
  int64_t count;
};

/// The rows in an order in which a recurrence can take them, one token per sequence at a time.
std::vector<StepRows> recurrent_steps(const DecodeRows& rows);

}  // namespace longhaul
