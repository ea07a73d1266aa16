// What a training run shows: header, console lines, metrics. Only rank 0 prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/control/selective_average.h"
#include "launch/config/load_configuration.h"
#include "launch/metrics/metrics_log.h"
#include "launch/metrics/throughput.h"
#include "launch/training/length_game.h"
#include "launch/training/prior_control.h"
#include "launch/training/training_engine.h"
#include "launch/training/training_state.h"
#include "launch/training/validation.h"
#include "parallel/checkpoint_writer.h"
#include "parallel/gradient_reducer.h"

namespace longhaul {

/// Name in a run directory of the resolved configuration; written when the run starts.
inline constexpr const char* kConfigurationFile = "config.ini";

/// Facts of the start of a run.
struct RunStart {
  std::string run_directory, run_id;
  int64_t first_step = 1;
  int ranks = 1, threads = 1;
  int64_t parameters = 0;
  double flops_per_token = 0;
  double peak_flops = 0;           ///< of all ranks
  std::vector<std::string> notes;  ///< skipped checkpoints, changed keys, recovered lock, optimizer description
  std::string decay_list;
};

/// One entropy gate over the steps between two metrics lines.
struct GateInterval {
  int64_t tokens = 0;
  int64_t fired = 0;
  double entropy_sum = 0;
  double threshold = 0;  ///< of the last step

  void add(const GateMeasurement& step);
  double fire_rate() const { return tokens > 0 ? static_cast<double>(fired) / static_cast<double>(tokens) : 0; }
  double entropy() const { return tokens > 0 ? entropy_sum / static_cast<double>(tokens) : 0; }
};

class TrainingLog {
 public:
  /// Prints the header and saves the resolved configuration.
  TrainingLog(const Communicator& group, const ResolvedConfiguration& configuration, const RunStart& start);

  void step(int64_t step, double learning_rate, const StepResult& result, double seconds,
            const ReductionTimeline& timeline);
  /// With a game the line says the length of the rows, and its kind where they are shorter than data.context.
  void validation(int64_t step, const std::string& weights, int64_t length, const ValidationScore& score,
                  double seconds);
  void game(int64_t step, const GameReport& report);
  void prior(int64_t step, const PriorReport& report);
  void selective_average(int64_t step, const SelectiveAverage::Decision& decision);
  void best_weights(const BestWeights& best);  ///< on the console; nothing when there are none
  void save(const SaveReport& report);
  void line(const std::string& text);  ///< one line on the console of rank 0

 private:
  /// When each bucket of gradients was ready, started and done, in seconds since the last slot began: a "reduction"
  /// line.
  void reduction(int64_t step, const ReductionTimeline& timeline);

  /// Adds a step to the interval of gates and memberships.
  void count(const StepResult& result);
  /// "fire_rate.K", "entropy.K", "threshold.K" of every gate K, over the steps since the last line.
  void add_gates(MetricsLine& line) const;
  /// "saturation", "membership_entropy" and "collapse" of the applied steps since the last line, for models with
  /// memberships.
  void add_memberships_of_interval(MetricsLine& line) const;

  bool is_root_;
  int ranks_;
  const Configuration& config_;
  Throughput throughput_;
  std::vector<GateInterval> gates_;
  LayerMemberships memberships_;
  std::unique_ptr<MetricsLog> metrics_;
};

/// "  fire 21.3/19.8/24.0 %": the gates' share of fired tokens; empty without gates.
std::string fire_text(const std::vector<GateInterval>& gates);

/// "step 120/1000  loss 3.4512  norm 0.812  lr 3.00e-04  12.3k tok/s  MFU 34.1 %  ETA 12:40".
std::string console_line(int64_t step, int64_t steps, double learning_rate, const StepResult& result,
                         const Throughput& throughput);

}  // namespace longhaul
