// Speed of a run: tokens per second and model FLOPs utilisation (Chowdhery et al. 2022, appendix B).
#pragma once

#include <cstdint>
#include <deque>

#include "core/comm/communicator.h"
#include "core/models/language_model.h"

namespace longhaul {

/// Of one layer kind, forward and backward: three times the forward pass, or once where nothing is differentiated.
double training_flops(const LayerFlops& layer);

/// Floating-point operations of forward and backward per token; recomputation does not count.
double training_flops_per_token(const LanguageModel& model, int64_t context);

/// Single-precision matrix products per second of this rank with its threads, all ranks measuring at once, added over
/// ranks. Takes about half a second. Collective.
double measured_peak_flops(Communicator& group);

/// Rates over the most recent steps.
class Throughput {
 public:
  /// `peak_flops` of all ranks together.
  Throughput(int64_t tokens_per_step, double flops_per_token, double peak_flops)
      : tokens_per_step_(tokens_per_step), flops_per_token_(flops_per_token), peak_flops_(peak_flops) {}

  void add_step(double seconds);
  double seconds_per_step() const;  ///< mean of the last 20 steps; 0 before the first
  double tokens_per_second() const;
  double utilisation() const;  ///< in [0, 1]

 private:
  int64_t tokens_per_step_;
  double flops_per_token_, peak_flops_;
  std::deque<double> recent_;
};

}  // namespace longhaul
