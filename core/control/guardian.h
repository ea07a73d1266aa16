// Guardian (training-dynamics.md): after each validation it moves the prior's temperature and two regularisation
// weights by an action of a small policy, and pays the policy by what the next validation gained. Training only.
#pragma once

#include <cstdint>
#include <string>

#include "core/control/gaussian_policy.h"
#include "core/control/validation_measure.h"

namespace longhaul {

class Guardian {
 public:
  enum class Baseline {
    none,       ///< the advantage is the reward
    mean,       ///< minus an exponential mean of past rewards
    unchanged,  ///< minus what a validation with the cross entropy of the last one would have paid
  };
  struct Options {
    double tau_start = 0.68, tau_min = 0.3, tau_max = 1.6;
    double tau_soft_max = 1.2;  ///< a tenth of what lies above is taken off at each action
    double lambda_delta_start = 0.1, lambda_saturation_start = 0.1;
    double beta = 1;             ///< beta_0
    double time_scale = 20;      ///< t_0, in actions
    double power = 0.7;          ///< p; 0: constant steps
    double gain_weight = 1;      ///< lambda_1
    double low_gain_weight = 1;  ///< lambda_2
    double gain_sharpness = 20;  ///< slope of the sigmoid over the gain, deep in the zone
    double zone = 5.6;           ///< cross entropy below which gains count as late
    double zone_width = 0.25;    ///< over which lateness sets in
    Baseline baseline = Baseline::unchanged;
    double mean_decay = 0.9;         ///< of the baseline `mean`
    double tau_effective_min = 0.6;  ///< below, the prior does not tighten any more (models.md 7)
    double saturation_limit = 0.6;   ///< more is reported as saturation
    uint64_t seed = 0;
  };
  /// What a checkpoint holds.
  struct State {
    GaussianPolicy::State policy;
    double tau = 0, lambda_delta = 0, lambda_saturation = 0;
    int64_t actions = 0;
    bool waiting = false;                 ///< an action was taken whose reward is due
    GaussianPolicy::Features features{};  ///< it was drawn for
    GaussianPolicy::Action action{};
    double cross_entropy = 0;  ///< of the last usable validation; it has acted on one when `data` is not empty
    double reward_mean = 0;
    int64_t rewards = 0;  ///< in the mean
    std::string data;     ///< the first usable validation's; others are no ground for action
    bool operator==(const State&) const = default;
  };
  /// One validation, for the log.
  struct Decision {
    Usability usability = Usability::usable;
    bool acted = false;     ///< false: nothing changed
    bool rewarded = false;  ///< the action before was paid
    double reward = 0, advantage = 0, step_size = 0;
    GaussianPolicy::Action action{};
    double tau = 0, lambda_delta = 0, lambda_saturation = 0;  ///< after the decision
    double over_tightening = 0;  ///< metric: how far tau is below what the prior heeds, in [0, 1]; 1 at tau_min
    double over_saturation = 0;  ///< metric: saturation beyond the limit, in [0, 1]; 1 when every membership saturates
    std::string line() const;
  };

  /// user_error if a range is empty or 0 < p <= 1/2 or p > 1.
  explicit Guardian(Options options);

  /// Pays the last action and takes the next one. An unusable validation changes nothing: the action stays unpaid until
  /// a usable one.
  Decision decide(const ValidationMeasure& measure);

  double tau() const { return state_.tau; }                              ///< tau_att
  double lambda_delta() const { return state_.lambda_delta; }            ///< in [0, 1]
  double lambda_saturation() const { return state_.lambda_saturation; }  ///< in [0, 0.6]
  double step_size(int64_t action) const;                                ///< beta_t; the first action is 0
  /// -CE + lambda_1 gain + lambda_2 sigmoid(sharpness gain lateness(CE_prev)), gain = max(0, CE_prev - CE).
  double reward(double previous, double now) const;

  const State& state() const { return state_; }
  /// user_error if the policy is of another size.
  void set_state(const State& state);

 private:
  void pay(const ValidationMeasure& measure, Decision& decision);
  void act(const ValidationMeasure& measure, Decision& decision);

  Options options_;
  State state_;
};

}  // namespace longhaul
