// The new tokens of a decoding call: runs of rows of one packed activation matrix, one run for each sequence that was
// given any.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/batch.h"
#include "core/tensor/tensor.h"

namespace longhaul {

class DecodeState;

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

/// All new tokens of a decode() call, one sequence after another.
struct PackedTokens {
  DecodeRows rows;
  Batch batch;  ///< one row of them: ids and positions
};

/// ids[b] for sequence b of `state`, which follow the tokens it has seen. user_error when a sequence would grow beyond
/// max_length; internal_error for another number of lists than sequences. Without any token, rows.runs is empty and the
/// tensors are undefined.
PackedTokens pack_tokens(const DecodeState& state, const std::vector<std::vector<int32_t>>& ids, int64_t max_length);

/// The last row of every run: [runs, columns].
Tensor last_rows(const Tensor& hidden, const DecodeRows& rows);

/// [sequences, columns]: values row i at the sequence of run i, zeros for sequences without a run.
Tensor spread_to_sequences(const Tensor& values, const DecodeRows& rows, int64_t sequences);

}  // namespace longhaul
