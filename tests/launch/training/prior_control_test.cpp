#include "launch/training/prior_control.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "launch/config/load_configuration.h"
#include "launch/training/training_state.h"
#include "tests/core/error_check.h"
#include "tests/launch/training/prior_testing.h"

namespace longhaul {
namespace {

using testing::PriorModel;

Configuration configuration(std::vector<std::string> settings) {
  for (const char* setting : {"model.vocab_size=16", "model.family=fuzzy_transformer", "model.d_model=8",
                              "model.n_head=2", "rpa.warm_steps=4", "validation.every=5", "train.steps=30"}) {
    settings.insert(settings.begin(), setting);
  }
  Configuration values = parse_configuration("", "", settings).values;
  values.model = resolved(values.model);
  return values;
}

PriorControl control_of(std::vector<std::string> settings) { return PriorControl(configuration(std::move(settings))); }

PriorMemory::Control at(const PriorControl& control, int64_t step, double chaos = 1) {
  PriorModel model;
  control.prepare(step, chaos, model);
  return model.prior_memory()->control();
}

/// A step of two slots, of layers with `saturated` of 10 tokens each.
StepResult step_of(std::vector<int64_t> saturated) {
  StepResult result;
  for (int slot = 0; slot < 2; ++slot) {
    SlotLoss loss{.cross_entropy = 1, .valid_targets = 10};
    for (const int64_t count : saturated) {
      loss.memberships.push_back(
          {.regimes = 2, .tokens = 10, .saturated = count, .entropy = 5 * std::log(2.0), .sums = {5, 5}});
    }
    result.slots.push_back(loss);
  }
  return result;
}

TEST(PriorControl, ImpossibleCombinationsAreUserErrors) {
  testing::expect_error(Fault::kUser, {"guardian.enabled", "temperature.enabled"}, [] {
    control_of({"guardian.enabled=true", "temperature.enabled=true"});
  });
  testing::expect_error(Fault::kUser, {"guardian.enabled", "no memberships", "rpa.prior"}, [] {
    control_of({"guardian.enabled=true", "model.family=transformer"});
  });
  testing::expect_error(Fault::kUser, {"temperature.enabled", "validation.every"}, [] {
    control_of({"temperature.enabled=true", "validation.every=0"});
  });
  testing::expect_error(Fault::kUser, {"rpa.temperature is 2", "0.3 to 1.6"}, [] {
    control_of({"guardian.enabled=true", "rpa.temperature=2"});
  });
  testing::expect_error(Fault::kUser, {"rpa.temperature is 0.68", "guardian.least_temperature", "0.7 to 1.6"}, [] {
    control_of({"guardian.enabled=true", "guardian.least_temperature=0.7"});
  });
  testing::expect_error(Fault::kUser, {"guardian.power", "0.25"}, [] {
    control_of({"guardian.enabled=true", "guardian.power=0.25"});
  });
}

TEST(PriorControl, WithoutAControllerThePriorOnlyFadesIn) {
  PriorControl control = control_of({"rpa.temperature=0.9"});
  EXPECT_EQ(at(control, 1), (PriorMemory::Control{.temperature = 0.9, .warm = 0.25}));
  EXPECT_EQ(at(control, 2, 0.5), (PriorMemory::Control{.temperature = 0.9, .warm = 0.25}));
  EXPECT_EQ(at(control, 4), (PriorMemory::Control{.temperature = 0.9, .warm = 1}));
  EXPECT_EQ(at(control, 400, 0.75), (PriorMemory::Control{.temperature = 0.9, .warm = 0.75}));
  EXPECT_FALSE(control.validate("valid", 3, PriorModel()));
  EXPECT_FALSE(control.state());
  PriorModel plain(0, 0);
  PriorControl(configuration({"model.family=transformer"})).prepare(1, 1, plain);
  EXPECT_EQ(at(control_of({"rpa.warm_steps=0"}), 1).warm, 1);
}

TEST(PriorControl, TheScriptedTemperatureFollowsStepsAndNudges) {
  PriorControl control =
      control_of({"temperature.enabled=true", "temperature.first=1.2", "rpa.temperature=0.8", "temperature.last=0.6",
                  "temperature.warm_in_steps=10", "temperature.zone=4", "temperature.nudge=0.125"});
  EXPECT_DOUBLE_EQ(at(control, 5).temperature, 1.0);
  EXPECT_DOUBLE_EQ(at(control, 10).temperature, 0.8);
  EXPECT_DOUBLE_EQ(at(control, 20).temperature, 0.7);  // half of the cosine until train.steps = 30
  EXPECT_EQ(at(control, 20).lambda_saturation, 0);
  PriorModel model;
  control.prepare(20, 1, model);
  EXPECT_DOUBLE_EQ(control.validate("valid", 4.5, model)->temperature, 0.7);
  EXPECT_FALSE(control.validate("valid", 3, model)->schedule->nudged);
  EXPECT_TRUE(control.validate("valid", 3, model)->schedule->nudged);
  EXPECT_DOUBLE_EQ(at(control, 20).temperature, 0.825);
}

TEST(PriorControl, GuardianReadsWhatHappenedSinceTheLastUsableValidation) {
  PriorControl control = control_of({"guardian.enabled=true"});
  PriorModel model;
  control.observe(step_of({5, 10}));
  StepResult skipped = step_of({0, 0});
  skipped.decision = SpikeGuard::Decision::skip_spike;
  control.observe(skipped);
  const PriorReport first = *control.validate("valid", 4, model);
  EXPECT_DOUBLE_EQ(first.measure.saturation, 0.75);
  EXPECT_DOUBLE_EQ(first.measure.entropy, 0.5);
  EXPECT_EQ(first.measure.gate_delta, 0);
  EXPECT_TRUE(first.guardian->acted);
  EXPECT_EQ(at(control, 9).temperature, first.guardian->tau);
  EXPECT_EQ(at(control, 9).lambda_saturation, first.guardian->lambda_saturation);
  EXPECT_GT(at(control, 9).lambda_saturation, 0);

  model.eta = {0.75, 0.25};
  control.observe(step_of({0, 0}));
  const PriorReport lost = *control.validate("valid", std::numeric_limits<double>::quiet_NaN(), model);
  EXPECT_FALSE(lost.guardian->acted);
  EXPECT_EQ(lost.guardian->tau, first.guardian->tau);
  control.observe(step_of({10, 10}));
  const PriorReport next = *control.validate("valid", 3.9, model);
  EXPECT_DOUBLE_EQ(next.measure.saturation, 0.5);  // of both steps since the first validation
  EXPECT_DOUBLE_EQ(next.measure.gate_delta, 0.25);
  EXPECT_TRUE(next.guardian->rewarded);
}

TEST(PriorControl, GuardianKeepsItsRange) {
  PriorControl control = control_of({"guardian.enabled=true", "guardian.beta=1000", "guardian.power=0",
                                     "guardian.least_temperature=0.5", "guardian.most_temperature=0.75"});
  const PriorModel model;
  double least = 9, most = 0;
  for (int validation = 0; validation < 20; ++validation) {
    control.validate("valid", 3, model);
    least = std::min(least, at(control, 1).temperature);
    most = std::max(most, at(control, 1).temperature);
  }
  EXPECT_EQ(least, 0.5);
  EXPECT_EQ(most, 0.75);
}

TEST(PriorControl, GoesOnFromTheTextOfACheckpoint) {
  const std::vector<std::string> settings = {"guardian.enabled=true"};
  PriorControl original = control_of(settings);
  PriorModel model;
  original.observe(step_of({1, 2}));
  original.validate("valid", 4, model);
  original.observe(step_of({3, 8}));
  model.eta = {0.7, 0.1};

  ControllerState state{1, {}, {"data", "tokenizer"}};
  EXPECT_EQ(state.to_json().find("prior"), std::string::npos);
  state.prior_control = original.state();
  PriorControl resumed = control_of(settings);
  resumed.set_state(ControllerState::from_json(state.to_json(), "here").prior_control, "here");
  const PriorReport expected = *original.validate("valid", 3.5, model), found = *resumed.validate("valid", 3.5, model);
  EXPECT_EQ(found.measure.gate_delta, expected.measure.gate_delta);
  EXPECT_GT(found.measure.gate_delta, 0);
  EXPECT_EQ(found.measure.saturation, expected.measure.saturation);
  EXPECT_EQ(found.measure.entropy, expected.measure.entropy);
  EXPECT_EQ(found.guardian->advantage, expected.guardian->advantage);
  EXPECT_EQ(resumed.state()->guardian, original.state()->guardian);
}

TEST(PriorControl, AControllerThatACheckpointLacksStartsAfresh) {
  PriorControl guardian = control_of({"guardian.enabled=true"});
  const std::optional<Guardian::State> fresh = guardian.state()->guardian;
  guardian.set_state(std::nullopt, "here");
  EXPECT_EQ(guardian.state()->guardian, fresh);
  PriorControl schedule = control_of({"temperature.enabled=true"});
  schedule.validate("valid", 3, PriorModel());
  guardian.set_state(schedule.state(), "here");
  EXPECT_EQ(guardian.state()->guardian, fresh);
  EXPECT_TRUE(guardian.state()->gates.empty());
}

}  // namespace
}  // namespace longhaul
