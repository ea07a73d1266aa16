#include "launch/training/weight_selection.h"

#include <cmath>

#include "kernels/error.h"

namespace longhaul {

WeightSelection::WeightSelection(const Configuration& configuration) : keeps_ema_(configuration.train.ema_decay > 0) {
  if (!configuration.swa.enabled) return;
  if (configuration.validation.every == 0) {
    throw user_error(
        "swa.enabled is true but validation.every is 0; snapshots follow validations: set validation.every to the "
        "steps between them");
  }
  swa_.emplace(configuration.swa);
}

std::optional<SelectiveAverage::Decision> WeightSelection::validate(
    int64_t step, const std::string& data, ShardedOptimizer& optimizer,
    const std::function<double(const std::string& weights)>& score) {
  best_ = {};
  const double raw = score("raw");
  compare(step, "raw", raw);
  std::optional<SelectiveAverage::Decision> decision;
  if (swa_) {
    decision = swa_->decide(step, {.finished = true, .data = data, .cross_entropy = raw});
    if (decision->take) optimizer.take_snapshot(decision->weight);
  }
  for (const WeightAverage average : {WeightAverage::ema, WeightAverage::swa}) {
    const bool usable = average == WeightAverage::ema ? keeps_ema_ : swa_ && swa_->state().snapshots > 0;
    if (!usable) continue;
    optimizer.swap_average(average);
    compare(step, name_of(average), score(name_of(average)));
    optimizer.swap_average(average);
  }
  return decision;
}

void WeightSelection::compare(int64_t step, const std::string& weights, double cross_entropy) {
  if (!std::isfinite(cross_entropy)) return;
  if (best_.weights.empty() || cross_entropy < best_.cross_entropy) best_ = {weights, cross_entropy, step};
}

std::optional<SelectiveAverage::State> WeightSelection::state() const {
  return swa_ ? std::optional(swa_->state()) : std::nullopt;
}

void WeightSelection::restore(const std::optional<SelectiveAverage::State>& state, const BestWeights& best) {
  if (swa_) swa_->set_state(state.value_or(SelectiveAverage::State{}));
  const bool kept = best.weights == "raw" || (best.weights == "ema" && keeps_ema_) ||
                    (best.weights == "swa" && swa_ && swa_->state().snapshots > 0);
  best_ = kept ? best : BestWeights{};
}

}  // namespace longhaul
