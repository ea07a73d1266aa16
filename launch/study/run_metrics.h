// What metrics.jsonl says of a run: its validations and its speed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace longhaul {

/// One validation.
struct ValidationScores {
  int64_t step = 0;
  int64_t tokens = 0;  ///< trained on before it
  /// By kind of weights (raw, ema, swa) and length of the rows: cross-entropy, nats per token; NaN where the run wrote
  /// null.
  std::map<std::string, std::map<int64_t, double>> cross_entropy;

  /// The weights whose rows of `length` tokens score best, as a checkpoint marks them: of equal ones the first of raw,
  /// ema, swa. "" when nothing has a finite score.
  std::string best_weights(int64_t length) const;
};

struct RunMetrics {
  std::vector<ValidationScores> validations;  ///< in order of their steps
  double tokens_per_second = 0;               ///< of the median step of those that were logged
};

/// From the lines of metrics.jsonl; `context` is data.context, `tokens_per_step` those of all ranks.
RunMetrics metrics_of(const std::string& lines, int64_t context, int64_t tokens_per_step);

/// Of a run that has ended: user_error naming the file when it is missing or without a validation of step `steps`.
RunMetrics read_run_metrics(const std::filesystem::path& run_directory, int64_t context, int64_t tokens_per_step,
                            int64_t steps);

}  // namespace longhaul
