#include "launch/training/length_game.h"

#include <algorithm>

#include "core/tensor/split_rows.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

ContextGame::Options game_options(const Configuration& configuration) {
  const GameConfig& config = configuration.game;
  const int64_t context = configuration.data.context;
  if (config.lengths.empty()) return {.lengths = {context}, .floor = 0};
  for (const int64_t length : config.lengths) {
    if (context % length != 0) {
      throw user_error("game.lengths: {} does not divide data.context = {}; rows are cut into equal pieces", length,
                       context);
    }
  }
  const int64_t longest = *std::max_element(config.lengths.begin(), config.lengths.end());
  if (longest != context) {
    throw user_error("game.lengths: the longest is {}, expected data.context = {}", longest, context);
  }
  return {
      .lengths = config.lengths,
      .eta = config.eta,
      .floor = config.floor,
      .saturation_weight = config.saturation_weight,
      .free_saturation = config.free_saturation,
      .entropy_weight = config.entropy_weight,
      .assignment = config.assignment == "global" ? ContextGame::Assignment::global : ContextGame::Assignment::per_rank,
      .seed = configuration.train.seed};
}

ContextGame::Sums sums_of(const SlotLoss& slot) {
  const MembershipSummary memberships = summarize(slot.memberships);
  const double tokens = static_cast<double>(slot.valid_targets);
  return {.tokens = slot.valid_targets,
          .loss = slot.cross_entropy,
          .saturation = tokens * memberships.saturation,
          .entropy = tokens * memberships.relative_entropy};
}

}  // namespace

LengthGame::LengthGame(const Configuration& configuration)
    : on_(!configuration.game.lengths.empty()), every_(configuration.game.every), game_(game_options(configuration)) {}

Batch LengthGame::split(const Batch& batch, int64_t step, int64_t slot) const {
  // A player is a slot, not a rank: slots are numbered alike for every number of ranks.
  return split_rows(batch, lengths()[game_.draw(step, slot)]);
}

std::optional<GameReport> LengthGame::observe(int64_t step, const StepResult& result, Communicator& group) {
  if (!on_) return std::nullopt;
  busy_seconds_ += result.seconds.forward + result.seconds.backward;
  if (result.decision == SpikeGuard::Decision::apply) {
    for (size_t slot = 0; slot < result.slots.size(); ++slot) {
      game_.observe(game_.draw(step, static_cast<int64_t>(slot)), sums_of(result.slots[slot]));
    }
  }
  if (step % every_ != 0) return std::nullopt;
  GameReport report;
  for (const ContextGame::LengthState& length : game_.state().lengths) report.played.push_back(length.sums);
  report.decision = game_.update();
  report.imbalance = imbalance(group);
  busy_seconds_ = 0;
  return report;
}

double LengthGame::imbalance(Communicator& group) const {
  std::vector<double> seconds(static_cast<size_t>(group.size()));
  seconds[static_cast<size_t>(group.rank())] = busy_seconds_;
  group.assemble(seconds);
  double sum = 0, most = 0;
  for (const double value : seconds) {
    sum += value;
    most = std::max(most, value);
  }
  return sum > 0 ? most * static_cast<double>(seconds.size()) / sum : 1;
}

std::optional<ContextGame::State> LengthGame::state() const {
  if (lengths().size() == 1) return std::nullopt;
  return game_.state();
}

void LengthGame::set_state(const std::optional<ContextGame::State>& state, const std::string& origin) {
  if (!state) return;
  try {
    game_.set_state(*state);
  } catch (const Error& error) {
    throw error.within(origin);
  }
}

}  // namespace longhaul
