// What moves the length-aware prior while a model trains: its warm-in, and its temperature, which is constant, scripted
// ([temperature]) or Guardian's ([guardian]). Nothing at all for models without memberships. (training-dynamics.md)
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/control/guardian.h"
#include "core/control/temperature_schedule.h"
#include "core/models/language_model.h"
#include "launch/config/configuration.h"
#include "launch/training/training_engine.h"

namespace longhaul {

/// One validation, for the log: the decision of the controller that is on.
struct PriorReport {
  ValidationMeasure measure;
  double temperature = 0;  ///< the model was validated with it
  std::optional<Guardian::Decision> guardian;
  std::optional<TemperatureSchedule::Decision> schedule;
};

class PriorControl {
 public:
  /// What a checkpoint holds when one of the controllers is on.
  struct State {
    std::optional<Guardian::State> guardian;
    std::optional<TemperatureSchedule::State> schedule;
    LayerMemberships played;    ///< over the applied steps since the last validation that was acted on
    std::vector<double> gates;  ///< of the residual branches, by layer, at that validation
  };

  /// `configuration.model` is resolved. user_error naming the keys when both controllers are on, or one without
  /// memberships or without validations.
  explicit PriorControl(const Configuration& configuration);

  /// Sets what optimizer step `step` and all that follows until the next one computes with. `chaos`: the factor of the
  /// chaotic warm-in at this step.
  void prepare(int64_t step, double chaos, LanguageModel& model) const;
  /// Takes in a step that has run.
  void observe(const StepResult& result);
  /// Takes in a validation of the raw weights that finished; nothing when no controller is on.
  std::optional<PriorReport> validate(const std::string& data, double cross_entropy, const LanguageModel& model);

  std::optional<State> state() const;
  /// A controller that `state` lacks starts afresh; one that is off is passed over. user_error naming `origin` for a
  /// state of another version.
  void set_state(const std::optional<State>& state, const std::string& origin);

 private:
  double temperature(int64_t step) const;
  double gate_delta(const std::vector<double>& gates) const;

  bool has_memberships_;
  double constant_temperature_;
  int64_t warm_steps_, longest_;
  std::optional<Guardian> guardian_;
  std::optional<TemperatureSchedule> schedule_;
  LayerMemberships played_;
  std::vector<double> gates_;
};

nlohmann::json control_to_json(const PriorControl::State& state);
PriorControl::State control_from_json(const nlohmann::json& json);

}  // namespace longhaul
