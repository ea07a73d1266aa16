// The entropy gates' measurements of one optimizer step: gathered over the slots of a rank, summarised over ranks, then
// taken into the gates when the step is applied. (models.md 6)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/communicator.h"
#include "core/control/entropy_gate.h"
#include "core/control/gate_record.h"
#include "core/tensor/batch.h"

namespace longhaul {

/// Of one gate over the valid tokens of the global batch; equal on all ranks.
struct GateMeasurement {
  EntropySummary entropy;
  int64_t fired = 0;
  double threshold = 0;  ///< that the step compared with

  double fire_rate() const {
    return entropy.count > 0 ? static_cast<double>(fired) / static_cast<double>(entropy.count) : 0;
  }
};

class GateStatistics {
 public:
  explicit GateStatistics(int64_t gates) : entropies_(gates), fired_(gates), thresholds_(gates), next_(gates) {}

  /// One slot's forward pass over `batch`.
  void add(const GateRecord& record, const Batch& batch);
  /// Over all slots of all ranks, by gate. Collective, unless there are no gates.
  std::vector<GateMeasurement> measure(Communicator& group) const;
  /// gate.update = before: the states that the only slot of the step compared with.
  std::span<const EntropyGate::State> next_states() const { return next_; }

 private:
  std::vector<std::vector<float>> entropies_;  ///< of the valid tokens, by gate
  std::vector<int64_t> fired_;
  std::vector<float> thresholds_;
  std::vector<EntropyGate::State> next_;
};

}  // namespace longhaul
