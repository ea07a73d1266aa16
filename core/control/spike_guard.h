// Decides whether a step is applied or skipped. A pure function of its state and of measurements that are equal on all
// ranks, so every rank decides alike without another message.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

class SpikeGuard {
 public:
  enum class Decision { apply, skip_nonfinite, skip_spike };

  struct Options {
    double factor = 0;             ///< skip when the norm exceeds factor * running mean; 0: only non-finite steps
    int64_t warmup = 20;           ///< applied steps before spikes are judged
    double mean_decay = 0.98;      ///< of the running mean of applied norms
    int64_t max_consecutive = 20;  ///< skipped steps in a row before decide() gives up
  };
  /// What a checkpoint holds.
  struct State {
    double mean_norm = 0;
    int64_t applied = 0;      ///< steps in the mean
    int64_t consecutive = 0;  ///< skipped steps in a row
    int64_t skipped = 0;      ///< skipped steps in all
    bool operator==(const State&) const = default;
  };

  explicit SpikeGuard(Options options) : options_(options) {}

  /// Judges one step by its mean loss and its gradient norm before clipping. Error(kSystem) after max_consecutive
  /// skips.
  Decision decide(double loss, double gradient_norm);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  Decision judge(double loss, double gradient_norm) const;
  Options options_;
  State state_;
};

const char* name_of(SpikeGuard::Decision decision);  ///< "applied", "skipped: not finite", "skipped: spike"

}  // namespace longhaul
