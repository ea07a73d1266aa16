#include "launch/training/prior_state.h"

#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr const char* kKind = "prior";

TensorSlice slice_of(const std::string& name, int64_t length, const Tensor& tensor) {
  return {kKind, fmt::format("{}.{}", name, length), tensor.shape(), tensor.dtype(), 0, tensor.count(), tensor.raw()};
}

std::vector<TensorSlice> slices_of(int64_t length, const PriorMemory::Entry& entry) {
  return {slice_of("memberships", length, entry.memberships), slice_of("alignment", length, entry.alignment)};
}

}  // namespace

nlohmann::json prior_to_json(const PriorState& state) {
  nlohmann::json updates = nlohmann::json::array();
  for (const auto& [length, count] : state.updates) updates.push_back({length, count});
  return {{"temperature", state.control.temperature},
          {"warm", state.control.warm},
          {"lambda_saturation", state.control.lambda_saturation},
          {"updates", updates}};
}

PriorState prior_from_json(const nlohmann::json& json) {
  PriorState state{{.temperature = json.at("temperature").get<double>(),
                    .warm = json.at("warm").get<double>(),
                    .lambda_saturation = json.at("lambda_saturation").get<double>()},
                   {}};
  for (const nlohmann::json& entry : json.at("updates")) {
    state.updates[entry.at(0).get<int64_t>()] = entry.at(1).get<int64_t>();
  }
  return state;
}

std::optional<PriorState> prior_state(const LanguageModel& model) {
  const PriorMemory* memory = model.prior_memory();
  if (!memory) return std::nullopt;
  PriorState state{memory->control(), {}};
  for (const auto& [length, entry] : memory->entries()) state.updates[length] = entry.updates;
  return state;
}

std::vector<TensorSlice> prior_slices(const LanguageModel& model) {
  std::vector<TensorSlice> slices;
  if (!model.prior_memory()) return slices;
  for (const auto& [length, entry] : model.prior_memory()->entries()) {
    for (TensorSlice& slice : slices_of(length, entry)) slices.push_back(std::move(slice));
  }
  return slices;
}

void restore_prior(LanguageModel& model, const std::optional<PriorState>& state, const CheckpointReader& checkpoint) {
  PriorMemory* const memory = model.prior_memory();
  const std::string origin = checkpoint.directory().string();
  if ((memory != nullptr) != state.has_value()) {
    throw user_error("{}: holds {} prior memory but the model has {}; it was written by another version or model",
                     origin, state ? "a" : "no", memory ? "one" : "none");
  }
  if (!memory) return;
  memory->clear();
  for (const auto& [length, updates] : state->updates) {
    PriorMemory::Entry& entry = memory->entry(length);
    entry.updates = updates;
    for (const TensorSlice& slice : slices_of(length, entry)) {
      const Shape stored = checkpoint.entry(slice.key()).shape;
      if (stored != slice.shape) {
        throw user_error("{}: {} has shape {}, expected {}; it was written by another version or model", origin,
                         slice.key(), stored.text(), slice.shape.text());
      }
      checkpoint.read(slice.key(), 0, slice.count, slice.dtype, slice.data);
    }
  }
  memory->set_control(state->control);
}

void copy_prior(LanguageModel& model, const LanguageModel& source) {
  if (!model.prior_memory() || !source.prior_memory()) return;
  if (model.config().has_prior() && !source.config().has_prior()) return;
  PriorMemory& memory = *model.prior_memory();
  memory.clear();
  for (const auto& [length, theirs] : source.prior_memory()->entries()) {
    PriorMemory::Entry& entry = memory.entry(length);
    entry.updates = theirs.updates;
    entry.memberships.copy_from(theirs.memberships);
    entry.alignment.copy_from(theirs.alignment);
  }
}

}  // namespace longhaul
