// What AMOR remembers while decoding: besides the states of the backbone, keys and values of every block, written for
// every token and read only where a gate fires.
#pragma once

#include <span>
#include <vector>

#include "core/models/gate_work.h"
#include "core/models/mixer_states.h"
#include "core/ops/attention.h"

namespace longhaul {

/// Rotated keys and values of one block: two [sequences, max_length, key_heads * head_size] tensors. `prior` covers all
/// positions below max_length, or has rank 0: none.
class GatedAttentionState : public MixerState {
 public:
  GatedAttentionState(int64_t sequences, int64_t max_length, const ops::AttentionOptions& options, DType dtype,
                      const ops::PriorFactors& prior = {});
  void clear(int64_t) override {}  ///< positions say what is valid

  /// kv [rows, 2 Hkv D], a key half and a value half, of all new tokens; rotates the keys in place.
  void append(const Tensor& kv, const DecodeRows& rows);
  /// q [fired, Hq D], the queries of the rows `fired` (i32, ascending) of the same call; rotated in place. Each attends
  /// to everything its sequence has seen up to itself: [fired, Hq D].
  Tensor attend(const Tensor& q, const Tensor& fired, const DecodeRows& rows) const;

 private:
  int64_t columns() const { return options_.key_heads * options_.head_size; }
  Tensor keys_, values_;
  ops::AttentionOptions options_;
  ops::PriorFactors prior_;
};

/// The states of the stack's mixers, then one GatedAttentionState per block.
class AmorState : public MixerStates {
 public:
  AmorState(int64_t sequences, int64_t max_length, int64_t blocks)
      : MixerStates(sequences, max_length), work_(static_cast<size_t>(blocks)) {}
  std::span<const GateWork> gate_work() const override { return work_; }
  GateWork& work(int64_t block) { return work_[static_cast<size_t>(block)]; }

 private:
  std::vector<GateWork> work_;
};

}  // namespace longhaul
