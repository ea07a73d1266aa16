#include "core/control/context_game.h"

#include <algorithm>
#include <cmath>

#include "core/control/controller_random.h"
#include "kernels/error.h"

namespace longhaul {

ContextGame::ContextGame(Options options) : options_(std::move(options)) {
  const std::vector<int64_t>& lengths = options_.lengths;
  if (lengths.empty()) throw user_error("game.lengths is empty; give at least one context length");
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t before = i == 0 ? 0 : lengths[i - 1];
    if (lengths[i] <= before) {
      throw user_error("game.lengths: {} follows {}; expected ascending lengths above 0", lengths[i], before);
    }
  }
  if (!(options_.floor >= 0 && options_.floor * static_cast<double>(lengths.size()) <= 1)) {
    throw user_error("game.floor is {}; expected 0 to {}, one part in {} lengths", options_.floor,
                     1 / static_cast<double>(lengths.size()), lengths.size());
  }
  if (!(options_.eta >= 0)) throw user_error("game.eta is {}; expected 0 or more", options_.eta);
  state_.lengths.resize(lengths.size());
}

void ContextGame::observe(size_t index, const Sums& sums) {
  if (!std::isfinite(sums.loss) || !std::isfinite(sums.saturation) || !std::isfinite(sums.entropy)) return;
  Sums& total = state_.lengths.at(index).sums;
  total.tokens += sums.tokens;
  total.loss += sums.loss;
  total.saturation += sums.saturation;
  total.entropy += sums.entropy;
}

double ContextGame::utility(const Sums& sums) const {
  const double tokens = static_cast<double>(sums.tokens);
  const double excess = std::max(0.0, sums.saturation / tokens - options_.free_saturation);
  return -sums.loss / tokens - options_.saturation_weight * excess + options_.entropy_weight * (sums.entropy / tokens);
}

std::vector<double> ContextGame::probabilities() const {
  std::vector<double> q;
  double sum = 0;
  for (const LengthState& length : state_.lengths) sum += q.emplace_back(std::exp(length.log_weight));
  for (double& value : q) value /= sum;
  return q;
}

void ContextGame::replicate() {
  // Relative to the best, so that equal utilities leave every bit of the weights as it is.
  double best = -INFINITY;
  for (const LengthState& length : state_.lengths) {
    if (length.measured) best = std::max(best, length.utility);
  }
  // A length that was never seen grows like the measured ones together: its share of q stays.
  const std::vector<double> q = probabilities();
  double before = 0, after = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    if (!state_.lengths[i].measured) continue;
    before += q[i];
    after += q[i] * std::exp(options_.eta * (state_.lengths[i].utility - best));
  }
  if (!(before > 0 && after > 0)) return;
  double largest = -INFINITY;
  for (LengthState& length : state_.lengths) {
    length.log_weight += length.measured ? options_.eta * (length.utility - best) : std::log(after / before);
    largest = std::max(largest, length.log_weight);
  }
  for (LengthState& length : state_.lengths) length.log_weight -= largest;
}

void ContextGame::raise_to_floor() {
  const std::vector<double> q = probabilities();
  std::vector<bool> raised(q.size());
  double scale = 1;
  // Raising some shrinks the others, which may bring more of them below: at most one round a length.
  for (bool again = true; again;) {
    again = false;
    double left = 1, free = 0;
    for (size_t i = 0; i < q.size(); ++i) {
      if (raised[i]) left -= options_.floor;
      if (!raised[i]) free += q[i];
    }
    if (free > 0) scale = left / free;
    for (size_t i = 0; i < q.size(); ++i) {
      if (raised[i] || scale * q[i] >= options_.floor) continue;
      raised[i] = again = true;
    }
  }
  if (std::find(raised.begin(), raised.end(), true) == raised.end()) return;
  double largest = -INFINITY;
  for (size_t i = 0; i < q.size(); ++i) {
    state_.lengths[i].log_weight = std::log(raised[i] ? options_.floor : scale * q[i]);
    largest = std::max(largest, state_.lengths[i].log_weight);
  }
  for (LengthState& length : state_.lengths) length.log_weight -= largest;
}

ContextGame::Decision ContextGame::update() {
  Decision decision{
      .update = ++state_.updates, .lengths = options_.lengths, .probabilities = {}, .utilities = {}, .seen = {}};
  const std::vector<double> q = probabilities();
  double known = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    LengthState& length = state_.lengths[i];
    decision.seen.push_back(length.sums.tokens > 0);
    if (decision.seen[i]) {
      length.utility = utility(length.sums);
      length.measured = true;
    }
    length.sums = {};
    decision.utilities.push_back(length.utility);
    if (!length.measured) continue;
    decision.mean_utility += q[i] * length.utility;
    known += q[i];
  }
  if (known > 0) decision.mean_utility /= known;
  replicate();
  if (options_.floor > 0) raise_to_floor();
  decision.probabilities = probabilities();
  return decision;
}

size_t ContextGame::draw(int64_t step, int64_t player) const {
  const bool alike = options_.assignment == Assignment::global;
  const double point =
      ControllerRandom(options_.seed, ControllerStream::context_game, step, alike ? 0 : player).uniform(0);
  const std::vector<double> q = probabilities();
  double below = 0;
  for (size_t i = 0; i + 1 < q.size(); ++i) {
    below += q[i];
    if (point < below) return i;
  }
  return q.size() - 1;
}

void ContextGame::set_state(const State& state) {
  if (state.lengths.size() != options_.lengths.size()) {
    throw user_error("context game: the state is of {} lengths, game.lengths has {}; keep the lengths of the run",
                     state.lengths.size(), options_.lengths.size());
  }
  state_ = state;
}

std::string ContextGame::Decision::line() const {
  std::string q, u;
  for (size_t i = 0; i < lengths.size(); ++i) {
    q += fmt::format(" {}:{:.4f}", lengths[i], probabilities[i]);
    u += fmt::format(" {}:{:.4f}{}", lengths[i], utilities[i], seen[i] ? "" : " (not seen)");
  }
  return fmt::format("context game: update {}: q{}; u{}; mean u {:.4f}", update, q, u, mean_utility);
}

}  // namespace longhaul
