// The memberships and alignments of one optimizer step: gathered over the slots of a rank, put together over ranks,
// then taken into the model's prior memory when the step is applied. (models.md 7)
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/comm/communicator.h"
#include "core/control/prior_memory.h"
#include "core/control/prior_record.h"
#include "core/ops/membership_gates.h"
#include "core/tensor/batch.h"

namespace longhaul {

/// By layer with memberships; empty for models without.
using LayerMemberships = std::vector<ops::MembershipStatistics>;

/// Adds layer by layer; an empty `sum` takes the other's layers.
void add_memberships(LayerMemberships& sum, const LayerMemberships& other);

/// What the controllers and the metrics read of all layers together; zeros without layers or tokens.
struct MembershipSummary {
  double saturation = 0;        ///< fraction of tokens with a membership above 0.9, mean over layers
  double relative_entropy = 0;  ///< mean entropy over its maximum, mean over layers
  double collapse = 0;          ///< largest mean membership of a regime, of the layer where it is largest
};
MembershipSummary summarize(const LayerMemberships& layers);

class PriorStatistics {
 public:
  /// `memory` of the model; null: a model without memberships, of which nothing is measured.
  PriorStatistics(const PriorMemory* memory, int64_t slots);

  /// One slot's forward pass over `batch`. internal_error when the record is of another number of layers.
  void add(int64_t slot, const PriorRecord& record, const Batch& batch);
  /// By slot of all ranks; exact, whatever the ranks. Collective, unless there are no memberships.
  std::vector<LayerMemberships> gather(Communicator& group);
  /// After gather(): the means over the slots of each length, lengths ascending. Sums are integers in units of 2^-40,
  /// so that neither ranks nor their order change a bit.
  void update(PriorMemory& memory) const;

 private:
  struct LengthSums {
    int64_t slots = 0;
    std::vector<int64_t> memberships;  ///< [layers, length, R]
    std::vector<int64_t> alignment;    ///< [layers, R, R]
  };
  LengthSums& sums_of(int64_t length);
  void gather_slots(Communicator& group);
  void sum_lengths(Communicator& group);

  int64_t layers_ = 0, regimes_ = 0;
  std::vector<int64_t> slot_lengths_;    ///< 0: of another rank
  std::vector<LayerMemberships> slots_;  ///< by slot
  std::map<int64_t, LengthSums> sums_;   ///< by length
};

}  // namespace longhaul
