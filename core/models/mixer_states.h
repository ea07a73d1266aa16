// What the recurrent families remember while decoding: the tokens seen by every sequence, and one state per mixer.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/models/mixers/mixer.h"

namespace longhaul {

/// States lie in the order in which their mixers run: those of the stack, then whatever a model appends (the blocks of
/// AMOR). A model with more to remember derives from this.
class MixerStates : public DecodeState {
 public:
  MixerStates(int64_t sequences, int64_t max_length) : max_length_(max_length), lengths_(sequences, 0) {}

  int64_t sequences() const override { return static_cast<int64_t>(lengths_.size()); }
  int64_t length(int64_t sequence) const override { return lengths_[sequence]; }
  int64_t max_length() const { return max_length_; }
  void clear(int64_t sequence) override {
    lengths_[sequence] = 0;
    for (const auto& state : states_) state->clear(sequence);
  }

  void append(std::unique_ptr<MixerState> state) { states_.push_back(std::move(state)); }
  MixerState& state(int64_t index) { return *states_[index]; }
  /// Counts the rows as seen: call once per decode(), after all mixers.
  void advance(const DecodeRows& rows) {
    for (const SequenceRows& run : rows.runs) lengths_[run.sequence] += run.count;
  }

 private:
  int64_t max_length_;
  std::vector<int64_t> lengths_;
  std::vector<std::unique_ptr<MixerState>> states_;
};

}  // namespace longhaul
