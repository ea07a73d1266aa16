#include "core/models/decode_rows.h"

#include "core/models/language_model.h"

namespace longhaul {

std::vector<StepRows> recurrent_steps(const DecodeRows& rows) {
  std::vector<StepRows> steps;
  bool joinable = false;  // the last step is made of single tokens, a next single token may join it
  for (const SequenceRows& run : rows.runs) {
    const bool single = run.count == 1;
    if (single && joinable && steps.back().sequence + steps.back().count == run.sequence &&
        steps.back().begin + steps.back().count == run.begin) {
      ++steps.back().count;
      continue;
    }
    for (int64_t i = 0; i < run.count; ++i) steps.push_back({run.begin + i, run.sequence, 1});
    joinable = single;
  }
  return steps;
}

PackedTokens pack_tokens(const DecodeState& state, const std::vector<std::vector<int32_t>>& ids, int64_t max_length) {
  if (static_cast<int64_t>(ids.size()) != state.sequences()) {
    throw internal_error("decode: {} id lists for {} sequences", ids.size(), state.sequences());
  }
  PackedTokens packed;
  std::vector<int32_t> all, positions;
  for (int64_t sequence = 0; sequence < state.sequences(); ++sequence) {
    const std::vector<int32_t>& tokens = ids[sequence];
    if (tokens.empty()) continue;
    const int64_t count = static_cast<int64_t>(tokens.size()), seen = state.length(sequence);
    if (seen + count > max_length) {
      throw user_error("sequence {} would grow to {} tokens, but there is room for {}", sequence, seen + count,
                       max_length);
    }
    packed.rows.runs.push_back({sequence, static_cast<int64_t>(all.size()), count});
    all.insert(all.end(), tokens.begin(), tokens.end());
    for (int64_t i = 0; i < count; ++i) positions.push_back(static_cast<int32_t>(seen + i));
  }
  if (all.empty()) return packed;
  const int64_t count = static_cast<int64_t>(all.size());
  packed.rows.positions = Tensor::from<int32_t>({count}, positions);
  packed.batch.ids = Tensor::from<int32_t>({1, count}, all);
  packed.batch.positions = packed.rows.positions.view({1, count});
  return packed;
}

Tensor last_rows(const Tensor& hidden, const DecodeRows& rows) {
  const int64_t count = static_cast<int64_t>(rows.runs.size());
  const Tensor result = Tensor::empty({count, hidden.size(1)}, hidden.dtype());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows.runs[i].begin + rows.runs[i].count - 1;
    result.rows(i, i + 1).copy_from(hidden.rows(row, row + 1));
  }
  return result;
}

Tensor spread_to_sequences(const Tensor& values, const DecodeRows& rows, int64_t sequences) {
  const Tensor result = Tensor::zeros({sequences, values.size(1)}, values.dtype());
  for (int64_t i = 0; i < values.size(0); ++i) {
    const int64_t sequence = rows.runs[i].sequence;
    result.rows(sequence, sequence + 1).copy_from(values.rows(i, i + 1));
  }
  return result;
}

}  // namespace longhaul
