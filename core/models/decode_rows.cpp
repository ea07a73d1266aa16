#include "core/models/decode_rows.h"

namespace longhaul {

std::vector<StepRows> recurrent_steps(const DecodeRows& rows) {
  std::vector<StepRows> steps;
  bool joinable = false;  // the last step is made of single tokens, a next single token may join it
  for (const SequenceRows& run : rows.runs) {
    const bool single = run.count == 1;
    if (single && joinable && steps.back().sequence + steps.back().count == run.sequence) {
      ++steps.back().count;
      continue;
    }
    for (int64_t i = 0; i < run.count; ++i) steps.push_back({run.begin + i, run.sequence, 1});
    joinable = single;
  }
  return steps;
}

}  // namespace longhaul
