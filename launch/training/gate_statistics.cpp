#include "launch/training/gate_statistics.h"

#include <algorithm>

namespace longhaul {

void GateStatistics::add(const GateRecord& record, const Batch& batch) {
  for (size_t gate = 0; gate < entropies_.size(); ++gate) {
    const GateRecord::Block& block = record.blocks.at(gate);
    const std::vector<float> valid = valid_entropies(block.entropies, batch.targets);
    fired_[gate] += std::count_if(valid.begin(), valid.end(), [&](float value) { return value > block.threshold; });
    entropies_[gate].insert(entropies_[gate].end(), valid.begin(), valid.end());
    thresholds_[gate] = block.threshold;
    next_[gate] = block.next;
  }
}

std::vector<GateMeasurement> GateStatistics::measure(Communicator& group) const {
  std::vector<GateMeasurement> measurements(entropies_.size());
  if (measurements.empty()) return measurements;
  const std::vector<EntropySummary> summaries = summarize_entropies(group, entropies_);
  std::vector<int64_t> fired = fired_;
  group.sum(fired);
  for (size_t gate = 0; gate < measurements.size(); ++gate) {
    measurements[gate] = {summaries[gate], fired[gate], thresholds_[gate]};
  }
  return measurements;
}

}  // namespace longhaul
