// What an ablation found, as a table for people, a table for programs and a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/study/ablation.h"
#include "launch/study/run_metrics.h"

namespace longhaul {

struct AblationResults {
  int64_t context = 0;  ///< data.context
  int64_t steps = 0, parameters = 0, tokens_per_step = 0;
  std::vector<std::vector<RunMetrics>> rungs;  ///< by rung (as ablation_rungs()) and seed
};

/// Reads metrics.jsonl of every run; user_error as read_run_metrics.
AblationResults read_results(const Ablation& ablation);

/// ablation.md: one row per rung, mean +- deviation over seeds; a second table by length where a rung validates
/// several.
std::string ablation_markdown(const AblationResults& results);
/// ablation.csv: one row per rung, weights (raw, best) and length.
std::string ablation_csv(const AblationResults& results);
/// curves.svg: cross-entropy of the best weights over whole rows against tokens, the mean over seeds and each of them.
std::string ablation_curves(const AblationResults& results);

}  // namespace longhaul
