// What a checkpoint holds of the prior memory: its tensors as "prior/memberships.LENGTH" and "prior/alignment.LENGTH",
// the rest beside the state of the controllers.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/control/prior_memory.h"
#include "core/models/language_model.h"
#include "parallel/checkpoint_reader.h"
#include "parallel/tensor_slice.h"

namespace longhaul {

/// A prior memory without its tensors.
struct PriorState {
  PriorMemory::Control control;
  std::map<int64_t, int64_t> updates;  ///< by trained length
  bool operator==(const PriorState&) const = default;
};
nlohmann::json prior_to_json(const PriorState& state);
PriorState prior_from_json(const nlohmann::json& json);

/// Nothing for a model without memberships.
std::optional<PriorState> prior_state(const LanguageModel& model);
/// Every tensor whole: for one rank to write. Empty for a model without memberships.
std::vector<TensorSlice> prior_slices(const LanguageModel& model);
/// The way back, the tensors from `checkpoint`. user_error naming it when model and checkpoint do not both have
/// memberships, or in other numbers.
void restore_prior(LanguageModel& model, const std::optional<PriorState>& state, const CheckpointReader& checkpoint);
/// The entries of another model's memory, for a run that starts from its weights; the control stays as it is. None for
/// a model with the prior from one without: alignments that were never made would weigh as much as those to come.
void copy_prior(LanguageModel& model, const LanguageModel& source);

}  // namespace longhaul
