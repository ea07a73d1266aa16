// The game of context lengths (training-dynamics.md): a distribution q over lengths that follows the replicator
// equation. A pure function of its state and of measurements that are equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

class ContextGame {
 public:
  enum class Assignment {
    global,   ///< all players play the same length
    per_rank  ///< every player draws its own
  };
  struct Options {
    std::vector<int64_t> lengths{256, 512, 1024};  ///< ascending
    double eta = 0.1;                              ///< q <- q exp(eta u) / Z
    double floor = 0.05;                           ///< q_min; 0: the pure replicator
    double saturation_weight = 0.1;                ///< lambda_s
    double free_saturation = 0.5;                  ///< s0: saturation up to here costs nothing
    double entropy_weight = 0.05;                  ///< lambda_h
    Assignment assignment = Assignment::global;
    uint64_t seed = 0;
  };
  /// Sums over the valid tokens that were trained at one length.
  struct Sums {
    int64_t tokens = 0;
    double loss = 0;        ///< cross entropy, nats
    double saturation = 0;  ///< fraction of memberships above 0.9, times tokens; 0 for models without memberships
    double entropy = 0;     ///< membership entropy over its maximum, times tokens
    bool operator==(const Sums&) const = default;
  };
  /// What a checkpoint holds of one length.
  struct LengthState {
    double log_weight = 0;  ///< log q up to a constant; the largest of all is 0
    double utility = 0;     ///< of the last update that had seen the length
    bool measured = false;  ///< false: never seen, utility means nothing
    Sums sums;              ///< since the last update
    bool operator==(const LengthState&) const = default;
  };
  struct State {
    std::vector<LengthState> lengths;  ///< in the order of the options
    int64_t updates = 0;
    bool operator==(const State&) const = default;
  };
  /// One update, for the log.
  struct Decision {
    int64_t update = 0;
    std::vector<int64_t> lengths;
    std::vector<double> probabilities, utilities;
    std::vector<bool> seen;    ///< since the update before
    double mean_utility = 0;   ///< sum q u before the update, over the measured lengths
    std::string line() const;  ///< "context game: update 3: q 256:0.41 512:0.59; u 256:-5.31 512:-5.02 (not seen)"
  };

  /// Starts uniform. user_error if the lengths do not ascend or the floor leaves no room.
  explicit ContextGame(Options options);

  /// Adds the sums over all ranks of an applied step at lengths[index]. Sums that are not finite are left out.
  void observe(size_t index, const Sums& sums);
  /// Utilities from the sums since the last update, then q. A length not seen since keeps its last utility; one that
  /// was never seen keeps its probability.
  Decision update();

  /// q, in the order of the lengths: sums to 1, none below the floor (to rounding).
  std::vector<double> probabilities() const;
  /// The index of the length played at optimizer step `step`. A player is a data-parallel rank, or whatever smaller
  /// share of the batch is numbered alike for every number of ranks. Global assignment ignores it.
  size_t draw(int64_t step, int64_t player) const;

  const Options& options() const { return options_; }
  const State& state() const { return state_; }
  /// user_error if the state is of another number of lengths.
  void set_state(const State& state);

 private:
  double utility(const Sums& sums) const;
  /// log-weights <- log-weights + eta u, the largest of them 0.
  void replicate();
  /// q <- max(floor, c q), the nearest distribution (in relative entropy) that respects the floor.
  void raise_to_floor();

  Options options_;
  State state_;
};

}  // namespace longhaul
