// What a training run shows: header, console lines, metrics. Only rank 0 prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "launch/config/load_configuration.h"
#include "launch/metrics/metrics_log.h"
#include "launch/metrics/throughput.h"
#include "launch/training/training_engine.h"
#include "launch/training/validation.h"
#include "parallel/checkpoint_writer.h"
#include "parallel/gradient_reducer.h"

namespace longhaul {

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

class TrainingLog {
 public:
  /// Prints the header and saves the resolved configuration as run_directory/config.ini.
  TrainingLog(const Communicator& group, const ResolvedConfiguration& configuration, const RunStart& start);

  void step(int64_t step, double learning_rate, const StepResult& result, double seconds,
            const ReductionTimeline& timeline);
  void validation(int64_t step, const std::string& weights, const ValidationScore& score, double seconds);
  void save(const SaveReport& report);
  void line(const std::string& text);  ///< one line on the console of rank 0

 private:
  /// When each bucket of gradients was ready, started and done, in seconds since the last slot began: a "reduction"
  /// line.
  void reduction(int64_t step, const ReductionTimeline& timeline);

  bool is_root_;
  int ranks_;
  const Configuration& config_;
  Throughput throughput_;
  std::unique_ptr<MetricsLog> metrics_;
};

/// "step 120/1000  loss 3.4512  norm 0.812  lr 3.00e-04  12.3k tok/s  MFU 34.1 %  ETA 12:40".
std::string console_line(int64_t step, int64_t steps, double learning_rate, const StepResult& result,
                         const Throughput& throughput);

}  // namespace longhaul
